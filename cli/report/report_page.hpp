// The page of `nodestage report --html`.
#pragma once

#include <string>
#include <vector>

#include "common/wire/node_report.hpp"

namespace nodestage {

// One self-contained file: HTML that is well-formed XML, too, with an SVG waterfall and the same as
// tables for each run; no script, nothing from elsewhere. `runs` holds one run each, sorted by
// node; none is empty. Every text of a report is escaped.
std::string report_page(const std::vector<std::vector<NodeReport>>& runs);

// Text for an element or a quoted attribute; what XML cannot hold becomes U+FFFD.
std::string markup(const std::string& text);

}  // namespace nodestage
