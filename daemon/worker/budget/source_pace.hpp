// SourcePace: whether a source keeps the reading thread waiting, like a network file system or cold
// disk.
#pragma once

#include <chrono>
#include <cstdint>
#include <utility>

namespace nodestage {

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

}  // namespace nodestage
