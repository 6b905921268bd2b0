// What `nodestage status` says to people.
#pragma once

#include <string>

#include "cli/status/status_report.hpp"

namespace nodestage {

enum class Owners { hide, name };

// A table for each job, a line for each node and item, and below it what is to be said of them.
// Ends with a newline; holds nothing else that a terminal would obey. `job` is what was asked for;
// "": all.
std::string status_text(const StatusReport& report, const std::string& job, Owners owners,
                        bool has_colour = false);

}  // namespace nodestage
