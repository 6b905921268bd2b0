// Times as milliseconds since 1970, for records that outlive the process.
#pragma once

#include <time.h>

#include <chrono>
#include <cstdint>
#include <thread>

namespace nodestage {

inline constexpr std::uint64_t k_day_s = 86'400;

inline std::uint64_t wall_ms() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

inline std::uint64_t wall_s() { return wall_ms() / 1000; }

// Converts a time of the steady clock. The two clocks are compared once, so that one moment always
// gives the same number.
inline std::uint64_t wall_ms(std::chrono::steady_clock::time_point moment) {
  static const auto k_steady = std::chrono::steady_clock::now();
  static const std::uint64_t k_wall = wall_ms();
  const auto later = std::chrono::floor<std::chrono::milliseconds>(moment - k_steady);
  return k_wall + static_cast<std::uint64_t>(later.count());
}

inline std::uint64_t wall_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

// Waits until the times that the kernel gives to files are after wall_ns() of this moment: its
// clock for them advances in steps of a few milliseconds. Returns that moment.
inline std::uint64_t pass_file_time() {
  const std::uint64_t now = wall_ns();
  const auto file_time = [] {
    struct timespec time {};
    ::clock_gettime(CLOCK_REALTIME_COARSE, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(time.tv_nsec);
  };
  // The bound is for a clock that is set back meanwhile.
  for (int i = 0; i < 40 && file_time() <= now; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return now;
}

}  // namespace nodestage
