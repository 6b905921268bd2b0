// The page of `nodestage report --html`.
#pragma once

#include <string>
#include <vector>

#include "common/wire/node_report.hpp"

namespace nodestage {

// Returns one self-contained HTML file that is also well-formed XML, with an SVG waterfall and
// tables for each run; without scripts and external resources. Each element of `runs` is one run,
// not empty, sorted by node. Every text of a report is escaped.
std::string report_page(const std::vector<std::vector<NodeReport>>& runs);

// Escapes text for an element or a quoted attribute; what XML cannot contain becomes U+FFFD.
std::string markup(const std::string& text);

}  // namespace nodestage
