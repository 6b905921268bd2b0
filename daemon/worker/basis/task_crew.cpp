#include "daemon/worker/basis/task_crew.hpp"

#include <algorithm>
#include <system_error>

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

namespace {

// Keeps a worker with many datasets far from its limit of processes (pids).
constexpr unsigned k_most_grown = 64;
std::atomic<unsigned> all_grown = 0;

}  // namespace

TaskCrew::TaskCrew(Size size)
    : size_{std::max(size.busy, 1U), std::max({size.busy, size.most, 1U})}, tasks_(size_.most) {}

Status TaskCrew::run(Tasks first) {
  add(0, std::move(first));
  {
    const Lock lock(mutex_);
    while (threads_.size() + 1 < size_.busy && left_ > 0) start_thread();
  }
  work(0);
  for (auto& thread : threads_) thread.join();
  all_grown -= grown_;
  return std::move(result_);
}

void TaskCrew::add(unsigned thread, Tasks tasks) {
  const Lock lock(mutex_);
  left_ += tasks.size();
  for (auto& task : tasks) tasks_[thread].push_back(std::move(task));
  if (tasks.size() == 1) {
    changed_.notify_one();
  } else {
    changed_.notify_all();
  }
}

void TaskCrew::work(unsigned thread) {
  for (;;) {
    Task task;
    {
      Lock lock(mutex_);
      task = take(thread, lock);
    }
    if (!task) return;
    const Status status = guarded([&] { return task(thread); });
    task = nullptr;
    end_task(status);
  }
}

TaskCrew::Task TaskCrew::take(unsigned thread, Lock& lock) {
  while (left_ > 0 && !has_failed_) {
    if (auto task = next(thread)) return task;
    changed_.wait(lock);
  }
  return nullptr;
}

TaskCrew::Task TaskCrew::next(unsigned thread) {
  auto& own = tasks_[thread];
  Task task;
  if (!own.empty()) {
    task = std::move(own.back());
    own.pop_back();
    return task;
  }
  for (unsigned i = 1; i < size_.most; ++i) {
    auto& other = tasks_[(thread + i) % size_.most];
    if (other.empty()) continue;
    task = std::move(other.front());
    other.pop_front();
    return task;
  }
  return task;
}

void TaskCrew::end_task(const Status& status) {
  const Lock lock(mutex_);
  --left_;
  if (!status && !has_failed_) {
    has_failed_ = true;
    result_ = status;
  }
  if (left_ == 0 || has_failed_) changed_.notify_all();
}

// If no thread can be started, the others do all of the work.
void TaskCrew::start_thread() {
  const auto number = static_cast<unsigned>(threads_.size() + 1);
  try {
    threads_.emplace_back([this, number] { work(number); });
  } catch (const std::system_error&) {
    return;
  }
}

void TaskCrew::grow() {
  const Lock lock(mutex_);
  if (left_ == 0 || has_failed_ || threads_.size() + 1 >= size_.most) return;
  if (++all_grown > k_most_grown) {
    --all_grown;
    return;
  }
  ++grown_;
  start_thread();
}

unsigned TaskCrew::threads() const {
  const Lock lock(mutex_);
  return static_cast<unsigned>(threads_.size()) + 1;
}

}  // namespace nodestage
