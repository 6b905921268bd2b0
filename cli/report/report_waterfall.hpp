// The drawing of `nodestage report --html`.
#pragma once

#include <string>
#include <vector>

#include "common/wire/node_report.hpp"

namespace nodestage {

// Returns an SVG element for one run, sorted by node: a row for each node and for each of its
// items. Uses the classes of the page's style.
std::string waterfall(const std::vector<NodeReport>& run);

}  // namespace nodestage
