// ThreadGroup: a few threads that do the same work, until it is done or its owner is destroyed.
#pragma once

#include <cerrno>
#include <exception>
#include <functional>
#include <new>
#include <thread>
#include <vector>

#include "common/result.hpp"
#include "daemon/worker/basis/fault.hpp"

namespace nodestage {

// Not movable. `work` must return soon after its owner asks it to stop, and must not throw.
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

// A thread's boundary for exceptions of libraries (no memory).
template <typename Action>
Status guarded(Action action) {
  try {
    try {
      return action();
    } catch (const std::exception& error) {
      return thrown(error);
    }
  } catch (const std::bad_alloc&) {
    return Error{ENOMEM, "no memory"};  // so short that it needs none
  }
}

}  // namespace nodestage
