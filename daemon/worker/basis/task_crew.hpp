// TaskCrew: threads that work on tasks which lead to more tasks, such as the parts of a tree.
//
// A thread takes the newest of its own tasks, so that what was started ends soon and memory depends
// on the depth of a tree, not on its breadth. A thread without tasks takes the oldest of another
// thread's: probably the largest part, and far from where that thread works.
#pragma once

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <new>
#include <thread>
#include <type_traits>
#include <vector>

#include "common/result.hpp"
#include "daemon/worker/basis/fault.hpp"

namespace nodestage {

// ThreadGroup: a few threads that do the same work, until it is done or its owner is destroyed.
// `work` must return soon after its owner asks it to stop, and must not throw.
class ThreadGroup {
 public:
  ThreadGroup() = default;
  ThreadGroup(const ThreadGroup&) = delete;
  ThreadGroup& operator=(const ThreadGroup&) = delete;
  ~ThreadGroup() { join(); }

  // Starts as many of `count` threads as the system allows; none is a fault. Call it once.
  Status start(unsigned count, const std::function<void()>& work);
  void join();

 private:
  std::vector<std::thread> threads_;
};

// A thread's boundary for exceptions of libraries (no memory). `action` returns a Status or
// nothing.
template <typename Action>
Status guarded(Action action) {
  try {
    try {
      if constexpr (std::is_void_v<decltype(action())>) {
        action();
        return {};
      } else {
        return action();
      }
    } catch (const std::exception& error) {
      return thrown(error);
    }
  } catch (const std::bad_alloc&) {
    return Error{ENOMEM, "no memory"};  // so short that it needs none
  }
}

class TaskCrew {
 public:
  // `thread` is below Size::most and identifies one thread.
  using Task = std::function<Status(unsigned thread)>;
  using Tasks = std::vector<Task>;

  // The crew starts with `busy` threads, the caller's among them, and grows up to `most` when tasks
  // ask for it. The growth of all crews of the process together is bounded.
  struct Size {
    unsigned busy;
    unsigned most;
  };
  explicit TaskCrew(Size size);

  // Call it once. Returns when no task is left or one has failed, with that fault; a library's
  // exception counts as one. No thread runs any more then; tasks that were not started are dropped.
  Status run(Tasks first);

  // Called by a running task. The last of `tasks` is taken first.
  void add(unsigned thread, Tasks tasks);

  // Called by a task that waits more than it computes: adds one thread, if possible.
  void grow();

  // Long tasks ask this from time to time and stop early.
  [[nodiscard]] bool has_failed() const { return has_failed_; }

  [[nodiscard]] unsigned most() const { return size_.most; }
  [[nodiscard]] unsigned threads() const;  // so far

 private:
  using Lock = std::unique_lock<std::mutex>;
  void work(unsigned thread);
  Task take(unsigned thread, Lock& lock);
  Task next(unsigned thread);
  void end_task(const Status& status);
  void start_thread();

  const Size size_;
  std::atomic<bool> has_failed_ = false;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<std::deque<Task>> tasks_;  // of each thread
  std::size_t left_ = 0;                 // tasks that have not ended
  std::vector<std::thread> threads_;     // without the caller's
  unsigned grown_ = 0;
  Status result_;
};

}  // namespace nodestage
