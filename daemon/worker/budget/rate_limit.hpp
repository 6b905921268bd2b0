// RateLimit: how fast this worker may read sources, from a shared file that the daemon writes.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>

namespace nodestage {

// A token bucket for all threads of the worker. The rate (8 bytes at offset 0 of fd, in bytes per
// second, 0: unlimited) is read again every second. If fd cannot be read, nothing is limited.
class RateLimit {
 public:
  explicit RateLimit(int fd) : fd_(fd) {}  // borrowed

  // Returns when `bytes` may have been read, or early once `stop` or `given_up` is set.
  void take(std::uint64_t bytes, const std::atomic<bool>& stop, const std::atomic<bool>& given_up);

  // Returns the rate as it was last read; 0: unlimited.
  double bytes_per_second();

 private:
  using Clock = std::chrono::steady_clock;
  std::chrono::duration<double> owed(std::uint64_t bytes);
  void read_rate(Clock::time_point now);

  const int fd_;
  std::mutex mutex_;
  double rate_ = 0;
  double tokens_ = 0;  // negative: already used, and must be waited for
  Clock::time_point refilled_{};
  Clock::time_point rate_read_{};
};

}  // namespace nodestage
