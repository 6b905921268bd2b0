// What `nodestage report` writes for programs and browsers: JSON, and a page that draws it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/wire/node_report.hpp"

namespace nodestage {

// Returns one element of `nodestage report --json`: the report as encode_report() writes it, with
// "spans", the stretches of time of the node and of each item.
nlohmann::json report_json(const NodeReport& report);

// Returns one self-contained HTML file, cli/report/report.html with the texts of the reports. Its
// script draws what report_json() says; its security policy allows it no request. Without
// JavaScript it shows report_table(). Each element of `runs` is one run, not empty, sorted by node.
// Nothing of a report becomes markup.
std::string report_page(const std::vector<std::vector<NodeReport>>& runs);

}  // namespace nodestage
