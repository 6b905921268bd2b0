// Memory that a pipeline's threads pass on without copying: one thread fills it, then it is shared.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "common/result.hpp"
#include "daemon/worker/basis/fault.hpp"

namespace nodestage {

// Bytes that do not change any more, with a share of the memory that contains them. Any thread.
class Slice {
 public:
  Slice() = default;
  Slice(std::shared_ptr<const void> owner, Bytes bytes) : owner_(std::move(owner)), bytes_(bytes) {}

  // In memory of its own.
  static Slice copy_of(Bytes data) {
    const std::shared_ptr<std::byte[]> memory(new std::byte[data.size()]);
    std::copy(data.begin(), data.end(), memory.get());
    return {memory, Bytes(memory.get(), data.size())};
  }

  [[nodiscard]] Bytes bytes() const { return bytes_; }
  [[nodiscard]] std::size_t size() const { return bytes_.size(); }
  [[nodiscard]] bool empty() const { return bytes_.empty(); }
  [[nodiscard]] bool shares_memory_with(const Slice& other) const { return owner_ == other.owner_; }
  [[nodiscard]] Slice part(std::size_t offset, std::size_t size = std::dynamic_extent) const {
    return {owner_, bytes_.subspan(offset, size)};
  }

 private:
  std::shared_ptr<const void> owner_;
  Bytes bytes_;
};

// A bounded number of equal buffers, allocated when first needed. A thread that waits for a buffer
// while it holds others of the same pool waits forever, unless another thread releases some (a
// writer that proceeds without it).
class BufferPool {
 public:
  BufferPool(std::size_t bytes, std::size_t count);

  struct Buffer {
    std::shared_ptr<const void> owner;
    std::span<std::byte> memory;
    // Returns the first `size` bytes, which must not be written any more.
    [[nodiscard]] Slice filled(std::size_t size) const {
      return {owner, Bytes(memory).first(size)};
    }
  };

  // Waits until a buffer is free. After stop(), returns at once, with an empty buffer (no owner).
  Buffer take();
  void stop();

 private:
  struct State;
  std::shared_ptr<State> state_;  // outlives the pool while a buffer is out
};

// Bytes before a block's data that its consumer may fill, to make blocks of round sizes.
inline constexpr std::size_t k_headroom = 512;

// Decoded data in a buffer.
struct DecodedBlock {
  BufferPool::Buffer buffer;
  std::size_t size = 0;  // of the data
  [[nodiscard]] std::span<std::byte> room() const { return buffer.memory.subspan(k_headroom); }
};

// CompressedInput: a file's bytes in order, for a decoder that looks ahead, then takes them.
// For one thread. Holds shares of the blocks that it was given: looking far ahead takes blocks from
// a bounded pool.
class CompressedInput {
 public:
  using Pull = std::function<Result<Slice>()>;  // the next block; empty: the end

  // `offset` is that of the first block in the file.
  CompressedInput(std::uint64_t offset, Pull pull) : offset_(offset), pull_(std::move(pull)) {}
  // Of these blocks alone, which are borrowed.
  CompressedInput(std::uint64_t offset, const std::vector<Slice>& blocks)
      : CompressedInput(offset, [&blocks, i = std::size_t{0}]() mutable {
          return Result<Slice>(i < blocks.size() ? blocks[i++] : Slice());
        }) {}
  CompressedInput(std::uint64_t offset, std::vector<Slice>&& blocks) = delete;

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
