// Cache: what `nodestage cache` shows of it, and drops.
#include <algorithm>

#include "common/text/human.hpp"
#include "daemon/root/cache/cache.hpp"

namespace nodestage {
namespace {

// Each takes some milliseconds, and others want the loop, too.
constexpr int k_drops_at_once = 20;

}  // namespace

CacheRow Cache::row_of(const Kept& kept) const {
  const CacheEntry& entry = kept.entry;
  CacheRow row;
  row.name = entry.name;
  row.uid = entry.uid;
  row.user = entry.for_readers ? "-" : printable(entry.user);
  row.what = entry.what + (entry.for_readers ? " (readers)" : "");
  row.source = entry.source;
  row.path = area_.path_of(entry);
  row.job = entry.made_by.job;
  row.made_at = entry.made_at;
  row.used_at = entry.used_at;
  row.bytes = entry.bytes;
  row.files = entry.files;
  row.source_bytes = entry.source_bytes;
  row.hits = kept.hits;
  row.jobs = static_cast<std::uint32_t>(kept.users.size());
  row.array_job = entry.array_job;
  row.array_task = entry.array_task;
  row.het_job = entry.het_job;
  return row;
}

void Cache::name_maker(const JobKey& job, const JobFacts& facts) {
  for (auto& [name, kept] : entries_) {
    if (!(kept.entry.made_by == job)) continue;
    kept.entry.array_job = facts.array_job;
    kept.entry.array_task = facts.array_task;
  }
}

// Of an entry for readers, a user learns what that user's jobs use, and not where another one
// found its source.
std::vector<CacheRow> Cache::rows(std::uint32_t uid) const {
  std::vector<CacheRow> rows;
  for (const auto& [name, kept] : entries_) {
    const bool uses = kept.entry.for_readers &&
                      std::any_of(kept.users.begin(), kept.users.end(),
                                  [uid](const auto& user) { return user.second == uid; });
    if (uid != 0 && uid != kept.entry.uid && !uses) continue;
    CacheRow& row = rows.emplace_back(row_of(kept));
    if (uses && uid != kept.entry.made_for) row.source = kept.entry.tree;
  }
  return rows;
}

std::vector<CacheRow> Cache::drop(std::uint32_t uid, const std::vector<std::string>& names) {
  std::vector<CacheRow> rows;
  for (auto& [name, kept] : entries_) {
    const bool is_asked =
        names.empty() || std::find(names.begin(), names.end(), name) != names.end();
    if (!is_asked || (uid != 0 && uid != kept.entry.uid)) continue;
    rows.push_back(row_of(kept));
    if (!can_go(kept)) continue;
    kept.is_dropped = true;
    kept.fault = "it is being removed";
  }
  drop_some();
  for (CacheRow& row : rows) {
    const auto left = entries_.find(row.name);
    if (left != entries_.end() && left->second.is_stuck) row.fault = left->second.fault;
  }
  return rows;
}

void Cache::drop_some() {
  int count = 0;
  for (auto at = entries_.begin(); at != entries_.end();) {
    const auto next = std::next(at);
    if (at->second.is_dropped && at->second.users.empty()) {
      if (++count > k_drops_at_once) {
        deps_.loop.after({}, [this] { drop_some(); });
        return;
      }
      at->second.is_dropped = false;
      evict(at, "nodestage cache --drop");
    }
    at = next;
  }
}

}  // namespace nodestage
