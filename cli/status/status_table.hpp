// The text of `nodestage status`.
#pragma once

#include <string>

#include "cli/status/status_report.hpp"

namespace nodestage {

enum class Owners { hide, name };

// Returns a table for each job, with a line for each node and item, and notes below it. Ends with a
// newline. Contains no control characters but newlines and, with has_colour, colors. `job` is the
// requested one; "": all.
std::string status_text(const StatusReport& report, const std::string& job, Owners owners,
                        bool has_colour = false);

}  // namespace nodestage
