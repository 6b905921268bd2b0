// The text of `nodestage report`.
#pragma once

#include <string>
#include <vector>

#include "common/wire/node_report.hpp"

namespace nodestage {

// `reports`: one run of a job, sorted by node. Times are relative to the first node's start.
std::string report_table(const std::vector<NodeReport>& reports);

// "job 12, restart 1"
std::string run_name(const NodeReport& report);

// "failed, optional", for people.
std::string state_text(const ReportItem& item);

// False for an item for which nothing had to be staged, as its note says: it was shared and there
// already, for example.
bool has_figures(const ReportItem& item);

// "succeeded", "failed", or "" while that is not known.
std::string outcome_text(const NodeReport& report);

}  // namespace nodestage
