// Syncs: the calls of fsync() in this program, by thread. A test can hold them, as a disk does that
// does not answer, or have them fail. test_disk_thread.cpp defines fsync().
#pragma once

#include <doctest/doctest.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <map>
#include <mutex>
#include <thread>

namespace nodestage {

struct DiskCalls {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::thread::id, std::size_t> counts;
  std::size_t held = 0;     // calls that do not return
  bool is_holding = false;  // those of other threads than the test's
  std::thread::id test = std::this_thread::get_id();
  int fault = 0;  // errno of each call
};
DiskCalls& disk_calls();

class Syncs {
 public:
  Syncs() {
    set([](DiskCalls& calls) { calls.counts.clear(); });
  }
  ~Syncs() {
    set([](DiskCalls& calls) { calls.fault = 0; });
    release();
  }
  Syncs(const Syncs&) = delete;
  Syncs& operator=(const Syncs&) = delete;

  void hold() {
    set([](DiskCalls& calls) { calls.is_holding = true; });
  }
  void release() {
    set([](DiskCalls& calls) { calls.is_holding = false; });
  }
  void fail_with(int fault) {
    set([fault](DiskCalls& calls) { calls.fault = fault; });
  }
  // Until a thread waits for the disk.
  void await_held() {
    std::unique_lock lock(disk_calls().mutex);
    REQUIRE(disk_calls().changed.wait_for(lock, std::chrono::minutes(1),
                                          [] { return disk_calls().held > 0; }));
  }
  [[nodiscard]] std::size_t in_this_thread() {
    const std::lock_guard lock(disk_calls().mutex);
    return disk_calls().counts[std::this_thread::get_id()];
  }
  [[nodiscard]] std::size_t in_all() {
    const std::lock_guard lock(disk_calls().mutex);
    std::size_t sum = 0;
    for (const auto& [thread, count] : disk_calls().counts) sum += count;
    return sum;
  }

 private:
  template <typename Change>
  void set(Change change) {
    {
      const std::lock_guard lock(disk_calls().mutex);
      change(disk_calls());
    }
    disk_calls().changed.notify_all();
  }
};

}  // namespace nodestage
