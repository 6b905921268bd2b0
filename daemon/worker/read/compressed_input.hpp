// CompressedInput: a file's bytes in order, as its decoder looks at them: some way ahead, then
// taken.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "common/result.hpp"
#include "daemon/worker/read/buffer.hpp"

namespace nodestage {

// One thread. What it holds are shares in the blocks that it was given: to look far ahead takes
// blocks from a bounded pool.
class CompressedInput {
 public:
  using Pull = std::function<Result<Slice>()>;  // the next block; empty: the end

  // `offset`: of the first block in the file.
  CompressedInput(std::uint64_t offset, Pull pull) : offset_(offset), pull_(std::move(pull)) {}

  // Gets more until `bytes` can be looked at. How many can: fewer only at the end.
  Result<std::size_t> ensure(std::size_t bytes);

  // What can be looked at in one piece; empty only when nothing is there (ensure(1)).
  [[nodiscard]] Bytes front() const { return blocks_.empty() ? Bytes() : blocks_.front().bytes(); }

  // Bytes `at`, … into `out`: all of `out` was ensured.
  void copy(std::size_t at, std::span<std::byte> out) const;
  template <std::size_t Size>
  [[nodiscard]] std::array<std::byte, Size> bytes_at(std::size_t at) const {
    std::array<std::byte, Size> bytes{};
    copy(at, bytes);
    return bytes;
  }

  // Both of what was ensured.
  void skip(std::size_t bytes);
  std::vector<Slice> take(std::size_t bytes);

  // In the file, of what comes next.
  [[nodiscard]] std::uint64_t offset() const { return offset_; }

 private:
  std::uint64_t offset_;
  Pull pull_;
  std::deque<Slice> blocks_;  // none is empty
  std::size_t held_ = 0;
  bool has_ended_ = false;
};

}  // namespace nodestage
