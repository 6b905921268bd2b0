// How reports come through srun, which passes on the lines of its tasks as they come, and breaks
// those of more than 1,024 bytes: in lines of their own.
//
//   nodestage-report NODE RESTART INDEX COUNT TEXT     TEXT: part INDEX, from 0, of COUNT of the
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

// What is whole among all lines; others, and what is no report, are passed over.
std::vector<NodeReport> from_pieces(const std::string& text);

}  // namespace nodestage
