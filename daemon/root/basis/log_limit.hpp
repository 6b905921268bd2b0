// The bounds of the log. LogLimit: how much of it the lines about one user fill. Anybody can cause
// such lines, by requests in a loop or by jobs without end, so they have a limit for each minute.
// Further lines of that minute are counted.
//
// Warnings and errors have a limit of their own: a flood of other lines does not hide them.
// Pure. Test: tests/unit/test_log_limit.cpp.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

namespace nodestage {

inline constexpr std::size_t k_longest_line = 2048;  // bytes of its text, escapes included
// A job's own lines have about 1.6 kB, so this is enough for ten jobs of a user each second.
inline constexpr std::size_t k_log_bytes_a_minute = std::size_t{1} << 20;

enum class Weight { light, heavy };  // heavy: warnings and errors

class LogLimit {
 public:
  using Moment = std::chrono::steady_clock::time_point;
  struct Verdict {
    bool is_admitted = true;
    std::uint64_t left_out = 0;  // of an earlier minute, to be reported now
  };

  Verdict ask(uid_t user, Weight weight, std::size_t bytes, Moment now);

 private:
  struct Minute {
    Moment begun;
    std::size_t bytes = 0;
    std::uint64_t left_out = 0;
  };
  Minute& minute_of(uid_t user, Weight weight, Moment now);

  std::map<std::pair<uid_t, Weight>, Minute> minutes_;
};

}  // namespace nodestage
