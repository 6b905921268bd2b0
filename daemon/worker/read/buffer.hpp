// Memory that the threads of a pipeline hand on without copying: who fills it, then shares it.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "daemon/worker/basis/bytes.hpp"

namespace nodestage {

// Bytes that do not change any more, and a share in the memory that they are in. Any thread.
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

// A bounded number of equal buffers, made when they are first needed. Whoever holds buffers while
// he waits for another one of the same pool must let go of them by other means (a writer that gets
// on without him), or the wait is for ever.
class BufferPool {
 public:
  BufferPool(std::size_t bytes, std::size_t count);

  struct Buffer {
    std::shared_ptr<const void> owner;
    std::span<std::byte> memory;
    // The first `size` bytes, to be read only from now on.
    [[nodiscard]] Slice filled(std::size_t size) const {
      return {owner, Bytes(memory).first(size)};
    }
  };

  // Waits until one is free. After stop() at once, with one that is empty (no owner).
  Buffer take();
  void stop();

 private:
  struct State;
  std::shared_ptr<State> state_;  // outlives the pool while a buffer is out
};

}  // namespace nodestage
