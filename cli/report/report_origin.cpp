#include "cli/report/report_origin.hpp"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>

#include "common/text/human.hpp"

namespace nodestage {
namespace {

// The figures are claims: a sum that is too large becomes the largest number.
std::uint64_t sum(std::uint64_t one, std::uint64_t other) {
  std::uint64_t result = 0;
  return __builtin_add_overflow(one, other, &result) ? std::numeric_limits<std::uint64_t>::max()
                                                     : result;
}

void add(std::uint64_t& total, std::uint64_t bytes) { total = sum(total, bytes); }

}  // namespace

bool has_origin(const ReportItem& item) {
  return item.bytes_from_storage != 0 || item.bytes_from_nodes != 0;
}

bool has_origin(const std::vector<NodeReport>& run) {
  return std::any_of(run.begin(), run.end(), [](const NodeReport& report) {
    return std::any_of(report.items.begin(), report.items.end(),
                       [](const ReportItem& item) { return has_origin(item); });
  });
}

Origin origin_of(const std::vector<NodeReport>& run) {
  std::set<std::string> relayed;
  for (const NodeReport& report : run) {
    for (const ReportItem& item : report.items) {
      if (has_origin(item)) relayed.insert(item.source);
    }
  }
  Origin origin;
  for (const NodeReport& report : run) {
    Origin node;
    for (const ReportItem& item : report.items) {
      if (!relayed.contains(item.source)) continue;
      add(node.from_storage, has_origin(item) ? item.bytes_from_storage : item.bytes_read);
      add(node.from_nodes, item.bytes_from_nodes);
    }
    if (node.from_storage == 0 && node.from_nodes == 0) continue;
    add(origin.from_storage, node.from_storage);
    add(origin.from_nodes, node.from_nodes);
    ++origin.nodes;
  }
  return origin;
}

std::string origin_text(const std::vector<NodeReport>& run) {
  if (!has_origin(run)) return "";
  const Origin origin = origin_of(run);
  const std::string nodes = human_count(origin.nodes) + (origin.nodes == 1 ? " node" : " nodes");
  const std::string read = "read from the file system: " + human_bytes(origin.from_storage);
  if (origin.from_nodes == 0) return read + " by " + nodes + "; nothing came from other nodes";
  return read + " of the " + human_bytes(sum(origin.from_storage, origin.from_nodes)) + " that " +
         nodes + " staged; the rest came from other nodes";
}

}  // namespace nodestage
