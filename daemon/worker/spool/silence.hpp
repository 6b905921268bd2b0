// Silence: for how long somebody has said nothing.
//
// Time in which this process itself did not run counts little: on a machine that was paused as a
// whole, nobody could speak.
#pragma once

#include <algorithm>
#include <chrono>

namespace nodestage {

// One thread.
class Silence {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Silence(std::chrono::milliseconds limit) : limit_(limit) {}

  void heard() {
    time_ = {};
    go_on();
  }
  // What has passed since the last call does not count: nobody has listened.
  void go_on() { looked_ = Clock::now(); }
  // Call it several times a second while you listen.
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
