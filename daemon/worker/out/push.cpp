#include "daemon/worker/out/push.hpp"

#include <algorithm>

#include "common/request/option_parts.hpp"
#include "daemon/worker/out/deliver_output.hpp"

namespace nodestage {
namespace {

// Returns the part of a path below the job directory that was typed as `start`, if it begins so.
std::string_view below(std::string_view path, std::string_view start) {
  const bool is_below = !start.empty() && path.size() > start.size() && path.starts_with(start) &&
                        path[start.size()] == '/';
  return is_below ? path.substr(start.size()) : path;
}

std::string source_of(const std::string& typed, const std::string& directory) {
  for (const std::string_view start : {"$SLURM_TMPDIR", "${SLURM_TMPDIR}"}) {
    if (const auto rest = below(typed, start); rest.size() != typed.size()) return tidy_path(rest);
  }
  if (!typed.starts_with('/')) return tidy_path(typed);
  return tidy_path(below(tidy_path(typed), tidy_path(directory)));
}

}  // namespace

bool is_selected(const PushOrder& order, const OutputItem& item, std::size_t index) {
  if (order.push_all || (order.push_items >> index & 1) != 0) return true;
  const std::string source = tidy_path(item.source);
  return std::any_of(
      order.push_names.begin(), order.push_names.end(),
      [&](const std::string& typed) { return source_of(typed, order.directory) == source; });
}

void push_outputs(const PushOrder& order, const StageRequest& request, const JobResults& job,
                  DeliveredList& list, const SettleRules& rules,
                  std::vector<OutputReport>& reports) {
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const OutputItem& item = request.outputs[i];
    if (!is_selected(order, item, i)) {
      reports[i].skip("");
    } else if (const Status early = check_early(item); !early) {
      reports[i].skip(early.error().what);
    } else {
      push_output(item, order, job, {&list, i}, rules,
                  order.shows_total ? Total::counted : Total::unknown, reports[i]);
    }
  }
}

}  // namespace nodestage
