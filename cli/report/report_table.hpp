// The text of `nodestage report`.
#pragma once

#include <string>
#include <vector>

#include "common/wire/node_report.hpp"

namespace nodestage {

// `reports` are one run's, sorted by node. Times are relative to the first node's start.
std::string report_table(const std::vector<NodeReport>& reports);

// Returns "job 12, restart 1".
std::string run_name(const NodeReport& report);

// Returns a text such as "failed, optional".
std::string state_text(const ReportItem& item);

// Returns false for an item for which nothing had to be staged, as its note says: it was shared and
// there already, for example.
bool has_figures(const ReportItem& item);

// Returns "succeeded", "failed", or "" while that is not known.
std::string outcome_text(const std::vector<NodeReport>& run);

}  // namespace nodestage
