// Times as milliseconds since 1970, for records that outlive the process.
#pragma once

#include <chrono>
#include <cstdint>

namespace nodestage {

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

}  // namespace nodestage
