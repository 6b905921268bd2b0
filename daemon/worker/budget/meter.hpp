// Meter: what one item has read and written so far, and the point where its thread is slowed down
// (rate limit) or stopped.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <utility>

#include "daemon/worker/basis/fault.hpp"

namespace nodestage {

// RateLimit: how fast this worker may read sources, from a shared file that the daemon writes.
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

// SourcePace: whether a source keeps the reading thread waiting, like a network file system or cold
// disk.
// For one thread.
class SourcePace {
 public:
  using Clock = std::chrono::steady_clock;

  // Call it after each answer of the source, with the amount of data in it.
  void add(Clock::time_point asked, std::uint64_t bytes) {
    ++answers_;
    if (Clock::now() - asked > k_prompt + k_per_kilobyte * (bytes / 1024)) ++late_;
  }

  // Returns whether many of the latest answers were late; false while they are few. A thread that
  // lost its CPU for a moment sees only one late answer.
  bool take_is_slow() {
    if (answers_ < k_enough) return false;
    return std::exchange(late_, 0) * 3 > std::exchange(answers_, 0);
  }

 private:
  static constexpr std::chrono::microseconds k_prompt{100};
  static constexpr std::chrono::microseconds k_per_kilobyte{1};
  static constexpr unsigned k_enough = 32;
  unsigned answers_ = 0;
  unsigned late_ = 0;
};

// Any thread may count and read. The rate limit and `stop` are borrowed and shared.
class Meter {
 public:
  using Clock = std::chrono::steady_clock;

  Meter(RateLimit& rate, const std::atomic<bool>& stop) : rate_(rate), stop_(stop) {}

  // Call it after each block read from a source: waits until the rate limit lets the block pass,
  // then counts it. The fault is stopped().
  Status count_read(std::uint64_t bytes) { return count_read(bytes, stop_); }
  // The same, but also stops waiting once `given_up` is set.
  Status count_read(std::uint64_t bytes, const std::atomic<bool>& given_up) {
    rate_.take(bytes, stop_, given_up);
    bytes_read += bytes;
    last_read = Clock::now();
    return check();
  }
  // Counts what came out of the spool, which costs nothing of the rate.
  void count_relayed(std::uint64_t bytes) {
    if (bytes == 0) return;
    bytes_read += bytes;
    last_read = Clock::now();
  }
  [[nodiscard]] Status check() const {
    return stop_ || has_too_many_files() ? Status(stopped()) : Status();
  }
  [[nodiscard]] const std::atomic<bool>& stop() const { return stop_; }
  // The caller who has set `most_files` gives the cause.
  [[nodiscard]] bool has_too_many_files() const { return files > most_files; }

  std::atomic<std::uint64_t> bytes_read = 0;  // of the source
  // Where these were read: by this process and, for it, by the relay worker (bytes that were read
  // twice count twice), and what the relay worker got from other nodes instead.
  std::atomic<std::uint64_t> from_storage = 0;
  std::atomic<std::uint64_t> from_nodes = 0;
  std::atomic<std::uint64_t> bytes_total = 0;  // of the source; 0: unknown
  std::atomic<Clock::time_point> last_read = Clock::time_point();
  std::atomic<std::uint64_t> bytes_written = 0;
  std::atomic<std::uint64_t> files = 0;  // entries of every kind but directories
  std::atomic<std::uint64_t> most_files = UINT64_MAX;

 private:
  RateLimit& rate_;
  const std::atomic<bool>& stop_;
};

// The figures of an item, before a try that may have been in vain.
class MeterMark {
 public:
  explicit MeterMark(Meter& meter)
      : meter_(meter),
        bytes_read_(meter.bytes_read),
        bytes_written_(meter.bytes_written),
        files_(meter.files) {}
  void restore() const {
    meter_.bytes_read = bytes_read_;
    meter_.bytes_written = bytes_written_;
    meter_.files = files_;
  }

 private:
  Meter& meter_;
  const std::uint64_t bytes_read_;
  const std::uint64_t bytes_written_;
  const std::uint64_t files_;
};

}  // namespace nodestage
