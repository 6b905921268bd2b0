// Sharing: what is kept for all who may read its source.
#include <algorithm>

#include "common/text/human.hpp"
#include "common/text/parsing.hpp"
#include "common/text/path_names.hpp"
#include "daemon/root/basis/log.hpp"
#include "daemon/root/staging/sharing.hpp"

namespace nodestage {
namespace {

// One process stages small items together: starting it costs more than they do.
constexpr std::uint64_t k_most_together = 64ULL << 20;  // bytes of sources

// Why the keeper's tree is not kept. `end`: how its process ended.
std::string why_not_kept(const WorkerStatus& status, const ItemRecord& item,
                         const std::string& end) {
  if (!status.cause.empty()) return printable(status.cause, Newlines::join);
  if (status.phase != WorkerPhase::done) return "the process " + end;
  return printable(field_text(item.note), Newlines::join);
}

}  // namespace

// What the keeper has found out comes before what the user's process says of the same item.
void Sharing::take_keys(JobRecord& record) {
  const JobKey key = record.key();
  const WorkerStatus status = deps_.files.status(key, WorkerTask::identify);
  const WorkerStatus keepers =
      deps_.cache.keeper() ? deps_.files.status(key, WorkerTask::look) : WorkerStatus{};
  if (is_unsettled(key, status)) return deps_.events.done(key, Fact::unsettled);
  Asker asker;
  asker.turn = next_turn_++;
  asker.items = status.items.size();
  for (std::uint32_t i = 0; i < status.items.size(); ++i) {
    if ((status.items[i].flags & k_item_shared) == 0) continue;
    if (i < keepers.items.size()) {
      Want want = want_of(record, keepers.items[i], i, true);
      if (want.is_open) {
        asker.wants.push_back(std::move(want));
        continue;
      }
    }
    Want& want = asker.wants.emplace_back(want_of(record, status.items[i], i, false));
    const bool is_too_new =
        i < keepers.items.size() && (keepers.items[i].flags & k_item_unsettled) != 0;
    if (want.is_open && is_too_new)
      want.shared.note =
          "not for other users: " + printable(field_text(keepers.items[i].note), Newlines::join);
  }
  const std::uint64_t turn = asker.turn;
  askers_.insert_or_assign(key, std::move(asker));
  settle(key);
  if (is_undecided(key)) await_readers(key, turn);
}

void Sharing::set_owner(const JobRecord& record, const SharedItem& shared,
                        CacheEntry& entry) const {
  const LocalUser owner = owner_of(record, shared).value_or(LocalUser{});
  entry.name = entry_name(owner.uid, shared.key);
  entry.uid = owner.uid;
  entry.gid = owner.gid;
  entry.user = shared.for_readers ? "" : record.begin.user;
  entry.for_readers = shared.for_readers;
  entry.made_for = record.begin.uid;
}

// Whoever is the keeper now, what a job uses stays what it is: the name of its directory begins
// with its owner's uid.
std::optional<LocalUser> Sharing::owner_of(const JobRecord& record,
                                           const SharedItem& shared) const {
  if (!shared.for_readers) return LocalUser{record.begin.uid, record.begin.gid};
  const auto& keeper = deps_.cache.keeper();
  if (shared.path.empty()) return keeper;
  const std::string directory = last_part(parent_of(shared.path));
  std::string_view number = directory;
  const auto uid = take_number<std::uint32_t>(number);
  if (!uid || *uid == 0) return {};
  return LocalUser{*uid, keeper && keeper->uid == *uid ? keeper->gid : *uid};
}

std::string Sharing::name_of(const JobRecord& record, const SharedItem& shared) const {
  const auto owner = owner_of(record, shared);
  return owner ? entry_name(owner->uid, shared.key) : std::string();
}

void Sharing::await_readers(const JobKey& key, std::uint64_t turn) {
  deps_.loop.after(std::chrono::seconds(deps_.config.cache.readers_wait_s), [this, key, turn] {
    const auto found = askers_.find(key);
    if (found == askers_.end() || found->second.turn != turn) return;
    found->second.is_late = true;
    settle(key);
  });
}

// Of two items with one source, the globs may differ in what they leave out.
KeepItems Sharing::next_to_keep(const JobRecord& record) {
  KeepItems items;
  const auto found = askers_.find(record.key());
  if (found == askers_.end()) return items;
  std::uint64_t bytes = 0;
  for (Want& want : found->second.wants) {
    CacheEntry& entry = want.entry;
    const auto at = fills_.find(entry.name);
    if (!want.is_open || !want.shared.for_readers || at == fills_.end() || at->second.has_leader)
      continue;
    Fill& fill = at->second;
    const std::uint64_t most = k_most_together - bytes;
    const bool is_beside = std::any_of(items.begin(), items.end(), [&entry](const auto& item) {
      return item.entry.source == entry.source;
    });
    if (!items.empty() && (fill.is_slow || is_beside || entry.source_bytes > most)) continue;
    if (const Status reserved = deps_.cache.reserve(entry); !reserved) {
      want.become_own(reserved.error().what);
      continue;
    }
    bytes += std::min(entry.source_bytes, most);
    fill.entry = entry;
    fill.has_leader = true;
    items.push_back({want.shared, entry});
    items.back().shared.role = ShareRole::lead;
    items.back().shared.path = deps_.cache.area().path_of(entry);
    if (fill.is_slow) break;
  }
  if (items.empty()) settle(record.key());
  return items;
}

// A process that was ended before it was done with several items says nothing of those that it had
// not begun, and each of the others gets a process to itself.
void Sharing::kept(const JobRecord& record, const KeepItems& items, const WorkerStatus& status,
                   const std::string& end) {
  const JobKey key = record.key();
  const CacheEntry& first = items.front().entry;
  const bool is_cut = items.size() > 1 && status.phase != WorkerPhase::done;
  const auto is_begun = [](const ItemRecord& item) { return state_of(item) != ItemState::waiting; };
  const bool any_begun = std::any_of(status.items.begin(), status.items.end(), is_begun);
  std::vector<std::pair<std::string, Failure>> ended;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const CacheEntry& entry = items[i].entry;
    const auto fill = fills_.find(entry.name);
    // It may have been given up.
    if (fill == fills_.end() || !fill->second.is_led_by(key) ||
        fill->second.entry.directory != entry.directory)
      continue;
    const ItemRecord item = i < status.items.size() ? status.items[i] : ItemRecord{};
    const bool is_whole = state_of(item) == ItemState::done && (item.flags & k_item_whole) != 0;
    const auto work = is_whole ? deps_.cache.area().open_work(first)
                               : Result<Fd>(Error{EIO, why_not_kept(status, item, end)});
    const Status done =
        work ? publish(record, item, entry, work->get(), deps_.cache.area().work_path(first))
             : Status(work.error());
    const bool is_again = is_cut && !is_whole;
    const auto asker = askers_.find(key);
    ended.emplace_back(entry.name, done || is_again ? Failure::none : Failure::counts);
    if (done) {
      if (asker != askers_.end()) asker->second.take(entry.name, item);
      continue;
    }
    deps_.cache.abandon(entry);
    fill->second.is_slow |= is_begun(item) || !any_begun;
    if (is_again) continue;
    log::warn(about_item(record, entry.source), "not kept for all who may read it: {}",
              done.error().what);
    if (asker != askers_.end()) asker->second.give_own(entry.name);
  }
  for (const auto& [name, failure] : ended) lead_ended(name, failure);
  settle(key);
}

// "data.tar (45 %), which is staged for all who may read it"
std::string Sharing::kept_now(const JobKey& key) const {
  const WorkerStatus status = deps_.workers.status(key, WorkerTask::keep);
  if (status.items.empty()) return "what is staged for all who may read it";
  const auto working =
      std::find_if(status.items.begin(), status.items.end(),
                   [](const ItemRecord& item) { return state_of(item) == ItemState::working; });
  const ItemRecord& item = working == status.items.end() ? status.items[0] : *working;
  const std::uint64_t percent =
      item.bytes_total == 0
          ? 0
          : std::min<std::uint64_t>(item.bytes_read, item.bytes_total) * 100 / item.bytes_total;
  return last_part(printable(field_text(item.source))) + " (" + std::to_string(percent) +
         " %), which is staged" + k_for_all;
}

}  // namespace nodestage
