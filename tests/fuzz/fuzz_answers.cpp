// What root's `nodestage report` and `nodestage status` read from steps that the job's user
// controls: it is refused, or shown. The first byte tells which command.
#include <vector>

#include "cli/report/report.hpp"
#include "cli/status/status.hpp"
#include "input.hpp"

using namespace nodestage;

namespace {

void read_report(std::string_view text) {
  const std::vector<NodeReport> reports = from_pieces(text, {"n1", "n2"});
  require(reports.size() <= 2 * k_most_runs_of_a_node);
  if (reports.empty()) return;
  require(!report_table(reports).empty());
  require(!report_page({reports}).empty());
  for (const NodeReport& report : reports)
    require(from_pieces(to_pieces(report, encode_report(report)), {"n1", "n2"}).size() == 1);
}

void read_status(std::string_view text) {
  auto jobs = jobs_of_json(text);
  if (!jobs) return;
  StatusReport report;
  report.jobs = std::move(*jobs);
  require(!status_text(report, "12", Owners::name, false).empty());
  require(static_cast<bool>(jobs_of_json(to_json(report, JsonForm::one_line))));
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text = text_of(data + 1, size - 1);
  data[0] % 2 == 0 ? read_report(text) : read_status(text);
  return 0;
}
