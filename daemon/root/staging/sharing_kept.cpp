// Sharing: what is kept for all who may read its source.
#include <algorithm>

#include "common/text/human.hpp"
#include "common/text/parsing.hpp"
#include "common/text/path_names.hpp"
#include "daemon/root/basis/log.hpp"
#include "daemon/root/staging/sharing.hpp"

namespace nodestage {
namespace {

// Why the keeper's tree is not kept.
std::string why_not_kept(const WorkerStatus& status) {
  if (!status.cause.empty()) return printable(status.cause, Newlines::join);
  return status.items.empty() ? "nothing was staged"
                              : printable(field_text(status.items[0].note), Newlines::join);
}

template <typename Items>
auto next_in(Items& items) {
  return std::find_if(items.begin(), items.end(), [](const SharedItem& shared) {
    return shared.role == ShareRole::lead && shared.for_readers;
  });
}

}  // namespace

// What the keeper has found out comes before what the user's process says of the same item.
void Sharing::take_keys(JobRecord& record) {
  const JobKey key = record.key();
  const WorkerStatus status = at_.files.status(key, WorkerTask::identify);
  const WorkerStatus keepers =
      at_.cache.keeper() ? at_.files.status(key, WorkerTask::look) : WorkerStatus{};
  if (await_settled(key, status)) return;
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
  askers_.insert_or_assign(key, std::move(asker));
  settle(key);
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
  const auto& keeper = at_.cache.keeper();
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

const SharedItem* Sharing::next_to_keep(const JobRecord& record) const {
  const auto next = next_in(record.shared);
  return next == record.shared.end() ? nullptr : &*next;
}

const CacheEntry* Sharing::reserved_for(const JobRecord& record, const SharedItem& shared) const {
  const auto fill = fills_.find(name_of(record, shared));
  const bool leads = fill != fills_.end() && fill->second.is_led_by(record.key());
  return leads ? &fill->second.entry : nullptr;
}

void Sharing::kept(JobRecord& record, const WorkerStatus& status, const std::string& fault) {
  const auto next = next_in(record.shared);
  if (next == record.shared.end()) return;
  const CacheEntry* reserved = reserved_for(record, *next);
  const std::string name = name_of(record, *next);
  Status done = reserved == nullptr ? Status(Error{ENOENT, "its entry was given up"})
                : fault.empty()     ? Status()
                                    : Status(Error{EIO, fault});
  if (done) {
    const bool is_whole = status.phase == WorkerPhase::done && status.items.size() == 1 &&
                          state_of(status.items[0]) == ItemState::done &&
                          (status.items[0].flags & k_item_whole) != 0;
    const auto work =
        is_whole ? at_.cache.open_work(*reserved) : Result<Fd>(Error{EIO, why_not_kept(status)});
    done = work ? publish(record, status.items[0], *reserved, work->get(),
                          at_.cache.work_path(*reserved))
                : Status(work.error());
  }
  if (done) {
    next->role = ShareRole::link;
    next->note = std::string("kept on this node") + k_for_all;
    next->files = status.items[0].files;
    next->bytes = status.items[0].bytes_written;
    next->elapsed_ms = std::max<std::uint64_t>(1, status.items[0].elapsed_ms);
    return lead_ended(name, Failure::none);
  }
  log::warn(about_item(record, reserved == nullptr ? "" : reserved->source),
            "not kept for all who may read it: {}", done.error().what);
  if (reserved != nullptr) at_.cache.abandon(*reserved);
  *next = {next->item, ShareRole::own, "", "", "it could not be kept for others"};
  lead_ended(name, Failure::counts);
}

// "data.tar (45 %), which is staged for all who may read it"
std::string Sharing::kept_now(const JobKey& key) const {
  const WorkerStatus status = at_.workers.status(key, WorkerTask::keep);
  if (status.items.empty()) return "what is staged for all who may read it";
  const ItemRecord& item = status.items[0];
  const std::uint64_t percent =
      item.bytes_total == 0
          ? 0
          : std::min<std::uint64_t>(item.bytes_read, item.bytes_total) * 100 / item.bytes_total;
  return last_part(printable(field_text(item.source))) + " (" + std::to_string(percent) +
         " %), which is staged" + k_for_all;
}

}  // namespace nodestage
