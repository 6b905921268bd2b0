// The worker's log: lines on fd 2, a pipe that the daemon drains. The daemon puts job and uid
// before each line.
#pragma once

#include <string_view>

namespace nodestage {

// One write(2), so lines of several threads never mix. Control characters are escaped.
void log_line(std::string_view text);
// For what needs an administrator: the line starts with k_error_mark.
void log_error(std::string_view text);

}  // namespace nodestage
