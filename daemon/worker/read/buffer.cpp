#include "daemon/worker/read/buffer.hpp"

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

}  // namespace nodestage
