// The drawing of `nodestage report --html`.
#pragma once

#include <string>
#include <vector>

#include "common/wire/node_report.hpp"

namespace nodestage {

// An SVG element of one run, sorted by node: a row for each node, and one for each of its items.
// Classes are those of the page's style.
std::string waterfall(const std::vector<NodeReport>& run);

}  // namespace nodestage
