#include "daemon/worker/decode/part_decoding.hpp"

#include <algorithm>

namespace nodestage {

Result<std::unique_ptr<Decoding>> PartDecoding::start(std::unique_ptr<PartMaker> maker,
                                                      unsigned threads, std::size_t depth) {
  std::unique_ptr<PartDecoding> decoding(new PartDecoding(std::move(maker), threads, depth));
  TRY(decoding->parts_.start(threads));
  return std::unique_ptr<Decoding>(std::move(decoding));
}

// The consumer, too, decodes some, and may find no memory for it.
Result<Slice> PartDecoding::next() {
  Result<Slice> slice = Slice();
  const Status done = guarded([&] {
    slice = next_slice();
    return Status();
  });
  if (done) return slice;
  carried_bytes_ = 0;
  fault_ = done;
  return done.error();
}

Result<Slice> PartDecoding::next_slice() {
  while (fault_ && !has_ended_) {
    auto block = next_block();
    if (!block) {
      fault_ = block.error();
    } else if (!*block) {
      has_ended_ = true;
    } else if (Slice slice = rounded(std::move(**block)); !slice.empty()) {
      return slice;
    }
  }
  // Decoded data come first.
  if (carried_bytes_ > 0) return last();
  if (!fault_) return fault_.error();
  return Slice();
}

// Empty: the end.
Result<std::optional<Part::Block>> PartDecoding::next_block() {
  for (;;) {
    if (part_ == nullptr) {
      part_ = parts_.next();
      taken_ = 0;
      if (part_ == nullptr) return std::optional<Part::Block>();
      maker_->settle(*part_, parts_);
      position_ = std::max(position_, part_->position);
    }
    if (taken_ == part_->blocks.size() && part_->fault) {
      part_->blocks.clear();
      taken_ = 0;
      part_->go_on();
      position_ = std::max(position_, part_->position);
    }
    if (taken_ < part_->blocks.size()) return std::optional(std::move(part_->blocks[taken_++]));
    TRY(std::move(part_->fault));
    part_.reset();
  }
}

Slice PartDecoding::rounded(Part::Block block) {
  const std::span<std::byte> memory = block.buffer.memory;
  const std::size_t begin = k_headroom - carried_bytes_;
  std::copy_n(carried_.begin(), carried_bytes_,
              memory.begin() + static_cast<std::ptrdiff_t>(begin));
  const std::size_t size = carried_bytes_ + block.size;
  const std::size_t whole = size / k_round * k_round;
  carried_bytes_ = size - whole;
  const auto rest = memory.subspan(begin + whole, carried_bytes_);
  std::copy(rest.begin(), rest.end(), carried_.begin());
  return {std::move(block.buffer.owner), Bytes(memory).subspan(begin, whole)};
}

Slice PartDecoding::last() {
  auto bytes = std::make_shared<std::vector<std::byte>>(
      carried_.begin(), carried_.begin() + static_cast<std::ptrdiff_t>(carried_bytes_));
  carried_bytes_ = 0;
  const Bytes view(*bytes);
  return {std::move(bytes), view};
}

}  // namespace nodestage
