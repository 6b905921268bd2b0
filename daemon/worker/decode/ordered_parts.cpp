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

}  // namespace nodestage
