#include "daemon/root/held/output_lines.hpp"

#include <algorithm>

#include "common/talk/summary.hpp"
#include "common/text/human.hpp"
#include "daemon/root/held/hold.hpp"

namespace nodestage {
namespace {

bool has_failed(const ItemRecord& item) { return state_of(item) == ItemState::failed; }

bool is_first_node(const JobRecord& record) {
  return record.begin.node_index == 0 || record.begin.node_count == 1;
}

bool is_reported(const ItemRecord& item, const JobRecord& record) {
  return state_of(item) != ItemState::skipped || is_first_node(record);
}

std::string first_line(const std::string& cause) {
  return printable(cause.substr(0, cause.find('\n')));
}

// Those of result_lines(), with the cause where no output has one.
std::vector<std::string> failed_lines(const JobRecord& record, const WorkerStatus& status,
                                      const std::string& cause) {
  std::vector<std::string> lines = result_lines(record, status);
  if (std::none_of(status.items.begin(), status.items.end(), has_failed))
    lines.push_back("results could not be delivered: " + first_line(cause));
  return lines;
}

}  // namespace

std::vector<std::string> result_lines(const JobRecord& record, const WorkerStatus& status) {
  std::vector<std::string> lines;
  if (record.push_has_failed)
    lines.emplace_back("deliveries while the job ran had failed; this is what its end has done:");
  const std::vector<std::string> all = delivery_lines(status);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (is_reported(status.items[i], record)) lines.push_back(all[i]);
  }
  return lines;
}

std::vector<std::string> held_lines(const JobRecord& record, const WorkerStatus& status,
                                    const std::string& cause) {
  std::vector<std::string> lines = failed_lines(record, status, cause);
  lines.push_back(std::string(k_results_kept) + ": `" + recover_command(record) +
                  "` copies it to " + printable(recovered_to(record, "DIR")));
  return lines;
}

std::vector<std::string> released_lines(const WorkerStatus& status, const std::string& parting) {
  if (!parting.empty()) return {printable(parting)};
  std::vector<std::string> lines;
  const std::vector<std::string> all = delivery_lines(status);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (state_of(status.items[i]) == ItemState::done) lines.push_back(all[i]);
  }
  lines.emplace_back(k_kept_delivered);
  return lines;
}

std::vector<std::string> lost_lines(const JobRecord& record, const WorkerStatus& status,
                                    const std::string& cause, Loss loss) {
  std::vector<std::string> lines = failed_lines(record, status, cause);
  lines.push_back(loss == Loss::mount ? std::string(k_results_lost_with_site)
                                      : std::string(k_results_lost) + "; tell your site's support");
  return lines;
}

}  // namespace nodestage
