#include "cli/plan/plan_kept.hpp"

#include <unistd.h>

#include <algorithm>

#include "cli/base/conversation.hpp"
#include "common/settings/config.hpp"
#include "daemon/worker/share/identify.hpp"

namespace nodestage {
namespace {

// Returns nothing if no daemon answers.
std::optional<std::vector<CacheRow>> kept_rows(const std::string& socket) {
  std::vector<CacheRow> rows;
  const auto code = exchange(socket, CacheQuery{}, [&rows](const Message& message) {
    const auto* row = std::get_if<CacheRow>(&message);
    if (row != nullptr) rows.push_back(*row);
    return row != nullptr ? std::nullopt
                          : std::optional(std::holds_alternative<Accepted>(message) ? 0 : k_fault);
  });
  if (!code || *code != 0) return {};
  return rows;
}

// What the daemon orders, as far as keys depend on it.
IdentifyOrder order_of(const std::string& path) {
  const auto loaded = load_config(path);
  const Config config = loaded ? *loaded : Config();
  IdentifyOrder order;
  set_rules(order, config);
  order.uid = ::getuid();
  order.gid = ::getgid();
  if (config.cache.enabled) order.cache = tmpdir_root(config);
  return order;
}

// A job waits for what was just changed, and the node cannot have it yet.
void set_kept(const SourceIdentity& identity, const std::vector<CacheRow>& rows, PlanItem& item) {
  if (identity.settles_ms != 0) {
    item.kept = KeptHere::miss;
    return;
  }
  if (identity.key.empty()) {
    item.kept = KeptHere::refused;
    item.not_kept = identity.why_not;
    return;
  }
  const std::string name = std::to_string(::getuid()) + "." + identity.key;
  const auto row = std::find_if(rows.begin(), rows.end(),
                                [&name](const CacheRow& one) { return one.name == name; });
  item.kept = row == rows.end() ? KeptHere::miss : KeptHere::hit;
  item.kept_by = row == rows.end() ? 0 : row->job;
}

}  // namespace

void find_kept(const std::string& request, const std::string& socket, const std::string& config,
               std::vector<PlanItem>& items) {
  const bool is_any =
      std::any_of(items.begin(), items.end(), [](const PlanItem& item) { return item.is_shared; });
  // As the daemon of a job's node gets it.
  const auto decoded = is_any ? decode_request(request) : Result(StageRequest());
  const auto rows = is_any && decoded ? kept_rows(socket) : std::nullopt;
  if (!rows) return;
  const auto identities = identities_of(order_of(config), *decoded);
  for (std::size_t i = 0; i < std::min(identities.size(), items.size()); ++i) {
    if (items[i].is_shared) set_kept(identities[i], *rows, items[i]);
  }
}

std::string kept_text(const PlanItem& item) {
  switch (item.kept) {
    case KeptHere::hit:
      return "already on this node (staged by job " + std::to_string(item.kept_by) + ")";
    case KeptHere::miss:
      return "not on this node yet; it is kept there for your further jobs while there is room";
    case KeptHere::refused:
      return "would not be kept: " + item.not_kept;
    case KeptHere::unknown:
      break;
  }
  return "unknown here, as no nodestaged answers on this machine; each node keeps it for your "
         "further jobs while there is room";
}

}  // namespace nodestage
