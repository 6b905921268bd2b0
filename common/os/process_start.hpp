// When a process was started, which tells it from a later one with its number.
#pragma once

#include <cstdint>
#include <string>

namespace nodestage {

// In clock ticks since boot, as /proc/PID/stat has it; 0: there is no such process.
std::uint64_t start_ticks_of(const std::string& pid);

}  // namespace nodestage
