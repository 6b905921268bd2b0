// Writes the settings of a configuration file for a bug report: numbers, sizes, switches, and words
// that the manual lists. Of other texts and of lists, it says only that they are set.
#pragma once

#include <string>
#include <string_view>

#include "cli/doctor/plugstack.hpp"

namespace nodestage {

// Returns lines "SECTION.KEY = VALUE", with paths as in the file; for a text that is not TOML one
// line that says so.
std::string settings_text(std::string_view toml);

// Returns the arguments of the plugin's line, in the same way.
std::string arguments_text(const PlugstackLine& line);

}  // namespace nodestage
