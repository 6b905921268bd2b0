#include "daemon/worker/read/buffer.hpp"

#include <condition_variable>
#include <mutex>

namespace nodestage {

struct BufferPool::State {
  using Memory = std::unique_ptr<std::byte[]>;

  explicit State(std::size_t size, std::size_t count) : bytes(size), unmade(count) {}

  void give_back(Memory memory) {
    const std::lock_guard lock(mutex);
    free.push_back(std::move(memory));
    changed.notify_one();
  }

  const std::size_t bytes;
  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  std::vector<Memory> free;
  std::size_t unmade;
  bool is_stopped = false;
};

BufferPool::BufferPool(std::size_t bytes, std::size_t count)
    : state_(std::make_shared<State>(bytes, count)) {
  state_->free.reserve(count);
}

BufferPool::Buffer BufferPool::take() {
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  state.changed.wait(lock,
                     [&] { return state.is_stopped || !state.free.empty() || state.unmade > 0; });
  if (state.is_stopped) return {};
  State::Memory memory;
  if (!state.free.empty()) {
    memory = std::move(state.free.back());
    state.free.pop_back();
  } else {
    --state.unmade;
    memory.reset(new std::byte[state.bytes]);  // not zeroed
  }
  lock.unlock();
  std::byte* const start = memory.release();
  const std::size_t size = state.bytes;
  std::shared_ptr<const void> owner(
      start, [pool = state_](std::byte* gone) { pool->give_back(State::Memory(gone)); });
  return {std::move(owner), {start, size}};
}

void BufferPool::stop() {
  const std::lock_guard lock(state_->mutex);
  state_->is_stopped = true;
  state_->changed.notify_all();
}

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
