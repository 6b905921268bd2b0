#include "cli/report/report_pieces.hpp"

#include <utility>

namespace nodestage {

std::string to_pieces(const NodeReport& report, const std::string& json) {
  return text_to_pieces(report.node, report.restart, json);
}

std::vector<NodeReport> from_pieces(std::string_view text, const std::vector<std::string>& nodes) {
  std::vector<NodeReport> reports;
  for (const auto& [node, runs] : texts_from_pieces(text, nodes, k_most_runs_of_a_node)) {
    for (const auto& [restart, json] : runs) {
      auto report = decode_report(json);
      if (report && report->node == node && report->restart == restart)
        reports.push_back(std::move(*report));
    }
  }
  return reports;
}

}  // namespace nodestage
