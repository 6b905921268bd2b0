#pragma once

#include <sys/types.h>

#include <cstdint>

namespace nodestage {

// How a process of an earlier daemon is found again. Its pid may be reused by now.
struct ProcessMark {
  pid_t pid = 0;
  std::uint64_t start_ticks = 0;  // field 22 of /proc/PID/stat
};

}  // namespace nodestage
