// The worker's log: lines on fd 2, a pipe that the daemon drains and puts job and uid before.
#pragma once

#include <string_view>

namespace nodestage {

// One write(2), so lines of several threads never mix. Control characters are escaped.
void log_line(std::string_view text);
// What needs an administrator: the line begins with k_error_mark.
void log_error(std::string_view text);

}  // namespace nodestage
