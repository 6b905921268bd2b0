#include "daemon/worker/basis/thread_group.hpp"

#include <algorithm>
#include <system_error>

#include "daemon/worker/basis/fault.hpp"

namespace nodestage {

Status ThreadGroup::start(unsigned count, const std::function<void()>& work) {
  threads_.reserve(count);
  for (unsigned i = 0; i < std::max(count, 1U); ++i) {
    try {
      threads_.emplace_back(work);
    } catch (const std::system_error& error) {
      if (!threads_.empty()) break;
      return fault(
          error.code().value(), std::string("no thread can be started: ") + error.what(),
          "Tell your site's support: the worker's limit of processes (worker.pids) is reached");
    }
  }
  return {};
}

void ThreadGroup::join() {
  for (auto& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace nodestage
