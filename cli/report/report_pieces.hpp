// The format in which reports pass through srun, which mixes the lines of its tasks and breaks
// lines of more than 1,024 bytes: each report is split into lines of its own.
//
//   nodestage-report NODE RESTART INDEX COUNT TEXT     TEXT: part INDEX (from 0) of COUNT of the
//   JSON
//
// Pure. Test: tests/unit/test_report_pieces.cpp.
#pragma once

#include <string>
#include <vector>

#include "common/wire/node_report.hpp"

namespace nodestage {

// A report as encode_report() makes it; each line ends with a newline.
std::string to_pieces(const NodeReport& report, const std::string& json);

// The complete reports in all lines. Ignores other lines and what is not a report.
std::vector<NodeReport> from_pieces(const std::string& text);

}  // namespace nodestage
