// The settings of a configuration file for a bug report: numbers, sizes, switches, and words that
// the manual lists. Of other texts and of lists only that they are set.
#pragma once

#include <string>
#include <string_view>

#include "cli/doctor/plugstack.hpp"

namespace nodestage {

// SECTION.KEY = VALUE, a line each. Paths are as in the file. A text that is not TOML: one line
// that says so.
std::string settings_text(std::string_view toml);

// The arguments of the plugin's line, in the same way.
std::string arguments_text(const PlugstackLine& line);

}  // namespace nodestage
