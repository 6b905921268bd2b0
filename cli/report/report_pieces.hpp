// The format in which reports pass through srun, which mixes the lines of its tasks and breaks
// lines of more than 1,024 bytes: each report is split into lines of its own.
//
//   nodestage-report NODE RESTART INDEX COUNT TEXT     TEXT: part INDEX (from 0) of COUNT of the
//   JSON
//
// The job's user can write such lines into srun's output, too. What is kept of them is bounded for
// each node that was asked.
// Pure. Test: tests/unit/test_report_pieces.cpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/wire/node_report.hpp"

namespace nodestage {

// The most runs of one job on one node; further ones are ignored.
inline constexpr std::size_t k_most_runs_of_a_node = 64;

// Cuts a report of encode_report() into lines, each with its newline.
std::string to_pieces(const NodeReport& report, const std::string& json);

// Returns the complete reports of `nodes`. Ignores lines that are no reports.
std::vector<NodeReport> from_pieces(std::string_view text, const std::vector<std::string>& nodes);

// The longest output that is read: enough for large reports of so many nodes.
std::size_t most_bytes_of_pieces(std::size_t nodes);

}  // namespace nodestage
