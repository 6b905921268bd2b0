// Reads when a process started, which distinguishes it from a later one with the same pid.
#pragma once

#include <cstdint>
#include <string>

namespace nodestage {

// Returns clock ticks since boot, from /proc/PID/stat; 0 if there is no such process.
std::uint64_t start_ticks_of(const std::string& pid);

}  // namespace nodestage
