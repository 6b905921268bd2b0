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
  if (slots_.empty()) return nullptr;
  const auto slot = std::move(slots_.front());
  slots_.pop_front();
  room_.notify_one();
  return std::move(slot->part);
}

void OrderedParts::work() {
  while (const auto slot = make()) {
    Part& part = *slot->part;
    const Status done = guarded([&] {
      if (part.fault) part.work();
      return Status();
    });
    if (!done) part.fault = done;
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
  auto slot = std::make_shared<Slot>();
  slot->part = make_part();
  const std::lock_guard lock(mutex_);
  if (slot->part == nullptr || !slot->part->fault) is_over_ = true;
  if (slot->part == nullptr) {
    worked_.notify_one();
    return nullptr;
  }
  slots_.push_back(slot);
  return slot;
}

std::unique_ptr<Part> OrderedParts::make_part() {
  std::unique_ptr<Part> part;
  const Status made = guarded([&] {
    part = maker_.make();
    return Status();
  });
  if (made) return part;
  part = std::make_unique<Part>();
  part->fault = made;
  return part;
}

void OrderedParts::set_worked(Slot& slot) {
  const std::lock_guard lock(mutex_);
  slot.is_worked = true;
  worked_.notify_one();
}

}  // namespace nodestage
