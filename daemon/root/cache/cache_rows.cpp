// Cache: what `nodestage cache` shows of it, and drops.
#include <algorithm>

#include "common/text/human.hpp"
#include "daemon/root/cache/cache.hpp"

namespace nodestage {

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
  for (auto at = entries_.begin(); at != entries_.end();) {
    const auto next = std::next(at);
    const bool is_asked =
        names.empty() || std::find(names.begin(), names.end(), at->first) != names.end();
    if (is_asked && (uid == 0 || uid == at->second.entry.uid)) {
      CacheRow& row = rows.emplace_back(row_of(at->second));
      if (at->second.users.empty() && !evict(at, "nodestage cache --drop"))
        row.fault = at->second.fault;
    }
    at = next;
  }
  return rows;
}

}  // namespace nodestage
