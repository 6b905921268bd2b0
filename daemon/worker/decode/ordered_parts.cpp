#include "daemon/worker/decode/ordered_parts.hpp"

namespace nodestage {

OrderedParts::~OrderedParts() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    room_.notify_all();
  }
  maker_.stop();
  threads_.join();
}

std::unique_ptr<Part> OrderedParts::next() {
  std::unique_lock lock(mutex_);
  worked_.wait(lock, [&] { return slots_.empty() ? is_over_ : slots_.front()->is_worked; });
  if (slots_.empty()) return failed_ && !failed_->fault ? std::move(failed_) : nullptr;
  const auto slot = std::move(slots_.front());
  slots_.pop_front();
  room_.notify_one();
  return std::move(slot->part);
}

void OrderedParts::work() {
  while (const auto slot = make()) {
    Part& part = *slot->part;
    Status done = guarded([&] {
      if (part.fault) part.work();
      return Status();
    });
    if (!done) part.fault = std::move(done);
    set_worked(*slot);
  }
}

// Null: there are no more.
std::shared_ptr<OrderedParts::Slot> OrderedParts::make() {
  const std::lock_guard making(making_);
  {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [&] { return is_over_ || slots_.size() < depth_; });
    if (is_over_) return nullptr;
  }
  std::shared_ptr<Slot> slot;
  Status made = guarded([&] {
    slot = made_slot();
    return Status();
  });
  if (slot != nullptr) return slot;
  const std::lock_guard lock(mutex_);
  is_over_ = true;
  if (!made) failed_->fault = std::move(made);
  worked_.notify_one();
  return nullptr;
}

// Null: there are no more.
std::shared_ptr<OrderedParts::Slot> OrderedParts::made_slot() {
  auto slot = std::make_shared<Slot>();
  slot->part = maker_.make();
  if (slot->part == nullptr) return nullptr;
  const std::lock_guard lock(mutex_);
  slots_.push_back(slot);
  if (!slot->part->fault) is_over_ = true;
  return slot;
}

void OrderedParts::set_worked(Slot& slot) {
  const std::lock_guard lock(mutex_);
  slot.is_worked = true;
  worked_.notify_one();
}

FrameParts::FrameParts(std::unique_ptr<DecodeStore> store, Coding coding,
                       std::unique_ptr<Codec> codec, std::unique_ptr<WholeFrames> whole)
    : store_(std::move(store)),
      whole_(std::move(whole)),
      reader_(store_->input, coding, std::move(codec), store_->faults) {}

bool FrameParts::begins_with_whole_frames() {
  if (whole_ != nullptr) first_ = whole_->take(*store_);
  return first_ != nullptr;
}

std::unique_ptr<Part> FrameParts::make() {
  if (first_ != nullptr) return std::move(first_);
  if (whole_ != nullptr && !reader_.is_in_frame()) {
    const auto found = reader_.find_frame();
    if (found && !*found) return nullptr;
    if (found) {
      if (auto part = whole_->take(*store_)) return part;
    }
  }
  auto part = std::make_unique<Part>();
  if (!store_->add_block(*part)) return part;
  Part::Block& block = part->blocks.back();
  const auto leave = [this] { return whole_ != nullptr && whole_->may_begin(store_->input); };
  block.size = reader_.fill(block.room(), leave);
  part->fault = reader_.fault();
  part->position = store_->input.offset();
  const bool has_ended = block.size == 0 && part->fault;
  return has_ended ? nullptr : std::move(part);
}

}  // namespace nodestage
