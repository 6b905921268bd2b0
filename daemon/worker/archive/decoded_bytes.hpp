// DecodedBytes: a decoder's blocks as one run of bytes, for readers of a format.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "daemon/worker/decode/decoder.hpp"

namespace nodestage {

// One thread. Faults are the decoder's; if the input ends before the requested bytes, cut_off().
class DecodedBytes {
 public:
  explicit DecodedBytes(Decoder& decoder) : decoder_(decoder) {}  // borrowed

  // Whether there is more; if so, left() is not empty.
  Result<bool> fill() {
    if (at_ < block_.size()) return true;
    block_ = {};
    at_ = 0;
    TRY_ASSIGN(block_, decoder_.next());
    return !block_.empty();
  }

  // What is left of the current block. skip() passes over its first `bytes`; take() returns them
  // and shares their memory.
  [[nodiscard]] Bytes left() const { return block_.bytes().subspan(at_); }
  void skip(std::size_t bytes) { at_ += bytes; }
  [[nodiscard]] Slice take(std::size_t bytes) {
    Slice taken = block_.part(at_, bytes);
    skip(bytes);
    return taken;
  }

  // The following two work across blocks.
  Status pass_over(std::uint64_t bytes) {
    while (bytes > 0) {
      TRY_ASSIGN(const std::size_t step, next_step(bytes));
      at_ += step;
      bytes -= step;
    }
    return {};
  }
  Status take_text(std::string& text, std::uint64_t bytes) {
    text.clear();
    while (text.size() < bytes) {
      TRY_ASSIGN(const std::size_t step, next_step(bytes - text.size()));
      text.append(reinterpret_cast<const char*>(left().data()), step);
      at_ += step;
    }
    return {};
  }

 private:
  Result<std::size_t> next_step(std::uint64_t bytes) {
    TRY_ASSIGN(const bool is_there, fill());
    if (!is_there) return decoder_.cut_off();
    return static_cast<std::size_t>(std::min<std::uint64_t>(bytes, left().size()));
  }

  Decoder& decoder_;
  Slice block_;
  std::size_t at_ = 0;  // in block_
};

}  // namespace nodestage
