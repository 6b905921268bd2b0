// nodestage status [JOBID]
#pragma once

#include <cstdint>
#include <string>

namespace nodestage {

// job 0: all. The exit code: 0, 1 (no answer), 3 (no such job of the caller's).
int show_status(const std::string& socket, std::uint32_t job);

}  // namespace nodestage
