#include "daemon/worker/decode/frame_parts.hpp"

namespace nodestage {

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
