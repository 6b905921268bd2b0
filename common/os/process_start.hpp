// When a process started, which distinguishes it from a later process with the same pid.
#pragma once

#include <cstdint>
#include <string>

namespace nodestage {

// In clock ticks since boot, from /proc/PID/stat; 0: there is no such process.
std::uint64_t start_ticks_of(const std::string& pid);

}  // namespace nodestage
