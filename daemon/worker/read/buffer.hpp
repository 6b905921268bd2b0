// Memory that a pipeline's threads pass on without copying: one thread fills it, then it is shared.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "daemon/worker/basis/bytes.hpp"

namespace nodestage {

// Bytes that do not change any more, with a share of the memory that contains them. Any thread.
class Slice {
 public:
  Slice() = default;
  Slice(std::shared_ptr<const void> owner, Bytes bytes) : owner_(std::move(owner)), bytes_(bytes) {}

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

}  // namespace nodestage
