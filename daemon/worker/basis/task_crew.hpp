// TaskCrew: threads that work off tasks which lead to more tasks, such as the parts of a tree.
//
// A thread takes the newest of its own tasks, so that what is begun ends soon and memory follows
// the depth of a tree, not its breadth. One that has none takes the oldest of another's: likely the
// largest part, and far from where that one works.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "common/result.hpp"

namespace nodestage {

class TaskCrew {
 public:
  class Task {
   public:
    Task() = default;
    Task(const Task&) = delete;
    Task& operator=(const Task&) = delete;
    virtual ~Task() = default;
    // `thread` is below Size::most; each number is one thread's.
    virtual Status run(unsigned thread) = 0;
  };
  using Tasks = std::vector<std::unique_ptr<Task>>;

  // It begins with `busy` threads, the caller's among them, and grows to `most` where tasks ask for
  // it; all crews of the process together by a bounded number.
  struct Size {
    unsigned busy;
    unsigned most;
  };
  explicit TaskCrew(Size size);
  TaskCrew(const TaskCrew&) = delete;
  TaskCrew& operator=(const TaskCrew&) = delete;

  // Once. Returns when no task is left or one has failed, with that fault; an exception of a
  // library counts as one. Then no thread runs any more, and what was not begun is dropped.
  Status run(Tasks first);

  // From a running task: the last of them is taken first.
  void add(unsigned thread, Tasks tasks);

  // From a task that waits more than it computes: one more thread, if it may be.
  void grow();

  // Long tasks ask from time to time whether it is worth going on.
  [[nodiscard]] bool has_failed() const { return has_failed_; }

  [[nodiscard]] unsigned most() const { return size_.most; }
  [[nodiscard]] unsigned threads() const;  // so far

 private:
  using Lock = std::unique_lock<std::mutex>;
  void work(unsigned thread);
  std::unique_ptr<Task> take(unsigned thread, Lock& lock);
  std::unique_ptr<Task> next(unsigned thread);
  Status run_task(Task& task, unsigned thread);
  void end_task(const Status& status);
  void start_thread();

  const Size size_;
  std::atomic<bool> has_failed_ = false;

  mutable std::mutex mutex_;  // over what follows
  std::condition_variable changed_;
  std::vector<std::deque<std::unique_ptr<Task>>> tasks_;  // of each thread
  std::size_t left_ = 0;                                  // tasks that have not ended
  std::vector<std::thread> threads_;                      // but the caller's
  unsigned grown_ = 0;
  Status result_;
};

}  // namespace nodestage
