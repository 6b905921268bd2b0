// CompressedInput: a file's bytes in order, for a decoder that looks ahead, then takes them.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "common/result.hpp"
#include "daemon/worker/read/buffer.hpp"

namespace nodestage {

// For one thread. Holds shares of the blocks that it was given: looking far ahead takes blocks from
// a bounded pool.
class CompressedInput {
 public:
  using Pull = std::function<Result<Slice>()>;  // the next block; empty: the end

  // `offset` is that of the first block in the file.
  CompressedInput(std::uint64_t offset, Pull pull) : offset_(offset), pull_(std::move(pull)) {}

  // Reads until `bytes` can be looked at. Returns how many can; fewer only at the end.
  Result<std::size_t> ensure(std::size_t bytes);

  // Returns what can be looked at in one piece; empty only if nothing is there (ensure(1)).
  [[nodiscard]] Bytes front() const { return blocks_.empty() ? Bytes() : blocks_.front().bytes(); }

  // Copies bytes from `at` on into `out`; all of them must be ensured.
  void copy(std::size_t at, std::span<std::byte> out) const;
  template <std::size_t Size>
  [[nodiscard]] std::array<std::byte, Size> bytes_at(std::size_t at) const {
    std::array<std::byte, Size> bytes{};
    copy(at, bytes);
    return bytes;
  }

  // Both take only bytes that were ensured.
  void skip(std::size_t bytes);
  std::vector<Slice> take(std::size_t bytes);

  // Returns the position of the next byte in the file.
  [[nodiscard]] std::uint64_t offset() const { return offset_; }

 private:
  std::uint64_t offset_;
  Pull pull_;
  std::deque<Slice> blocks_;  // none is empty
  std::size_t held_ = 0;
  bool has_ended_ = false;
};

}  // namespace nodestage
