// Silence: for how long another process has said nothing.
//
// Time in which this process itself did not run counts little: on a machine that was paused as a
// whole, no process could speak.
#pragma once

#include <algorithm>
#include <chrono>

namespace nodestage {

// For one thread.
class Silence {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Silence(std::chrono::milliseconds limit) : limit_(limit) {}

  void heard() {
    time_ = {};
    go_on();
  }
  // Excludes the time since the last call, in which the caller did not listen.
  void go_on() { looked_ = Clock::now(); }
  // Returns whether the limit has passed. Call it several times a second while you listen.
  bool is_too_long() {
    const auto now = Clock::now();
    time_ += std::min<Clock::duration>(now - looked_, k_most_at_once);
    looked_ = now;
    return time_ >= limit_;
  }

 private:
  static constexpr std::chrono::milliseconds k_most_at_once{500};
  std::chrono::milliseconds limit_;
  Clock::duration time_{};
  Clock::time_point looked_ = Clock::now();
};

}  // namespace nodestage
