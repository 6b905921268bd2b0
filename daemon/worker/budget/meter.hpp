// Meter: what one item has read and written so far, and the point where its thread is slowed down
// (rate limit) or stopped.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/budget/rate_limit.hpp"

namespace nodestage {

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
