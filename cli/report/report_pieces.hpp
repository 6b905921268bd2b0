// Reports as cli/base/pieces.hpp passes them through srun: as JSON, with the restart as their
// number. Pure. Test: tests/unit/test_report_pieces.cpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/base/pieces.hpp"
#include "common/wire/node_report.hpp"

namespace nodestage {

// The most runs of one job on one node; further ones are ignored.
inline constexpr std::size_t k_most_runs_of_a_node = 64;

// Cuts a report of encode_report() into lines, each with its newline.
std::string to_pieces(const NodeReport& report, const std::string& json);

// Returns the complete reports of `nodes`. Ignores lines that are no reports.
std::vector<NodeReport> from_pieces(std::string_view text, const std::vector<std::string>& nodes);

}  // namespace nodestage
