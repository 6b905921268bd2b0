#include "daemon/worker/read/compressed_input.hpp"

#include <algorithm>

namespace nodestage {

Result<std::size_t> CompressedInput::ensure(std::size_t bytes) {
  while (held_ < bytes && !has_ended_) {
    TRY_ASSIGN(Slice block, pull_());
    has_ended_ = block.empty();
    held_ += block.size();
    if (!has_ended_) blocks_.push_back(std::move(block));
  }
  return held_;
}

void CompressedInput::copy(std::size_t at, std::span<std::byte> out) const {
  for (const Slice& block : blocks_) {
    if (out.empty()) return;
    if (at >= block.size()) {
      at -= block.size();
      continue;
    }
    const Bytes part = block.bytes().subspan(at, std::min(out.size(), block.size() - at));
    std::copy(part.begin(), part.end(), out.begin());
    out = out.subspan(part.size());
    at = 0;
  }
}

void CompressedInput::skip(std::size_t bytes) {
  offset_ += bytes;
  held_ -= bytes;
  while (bytes > 0) {
    Slice& block = blocks_.front();
    const std::size_t part = std::min(bytes, block.size());
    bytes -= part;
    if (part < block.size()) {
      block = block.part(part);
    } else {
      blocks_.pop_front();
    }
  }
}

std::vector<Slice> CompressedInput::take(std::size_t bytes) {
  std::vector<Slice> taken;
  std::size_t left = bytes;
  for (auto block = blocks_.begin(); left > 0; ++block) {
    taken.push_back(block->part(0, std::min(left, block->size())));
    left -= taken.back().size();
  }
  skip(bytes);
  return taken;
}

}  // namespace nodestage
