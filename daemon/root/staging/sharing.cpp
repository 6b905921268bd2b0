#include "daemon/root/staging/sharing.hpp"

#include "common/text/human.hpp"
#include "daemon/root/basis/log.hpp"

namespace nodestage {
namespace {

constexpr unsigned k_most_failures = 2;
constexpr const char* k_no_way_in = "this node's file system cannot let one more user in";
constexpr std::uint64_t k_longest_pause_ms = 24ULL * 3600 * 1000;

bool is_done(const ItemRecord& item) { return state_of(item) == ItemState::done; }

// Where the tree is that the worker claims, below the job directory; "" if it is elsewhere.
std::string destination_in(const ItemRecord& item, const std::string& directory) {
  const std::string path = field_text(item.destination);
  if (!path.starts_with(directory + "/")) return {};
  const std::string destination = path.substr(directory.size() + 1);
  return (item.flags & k_item_spread) != 0 ? kept_place(destination) : destination;
}

}  // namespace

bool Sharing::concerns(const JobRecord& record) const {
  return may_share(record.begin.request) && !plain_.contains(record.key());
}

// ---- what the job wants

void Sharing::decide(JobRecord& record) {
  const JobKey key = record.key();
  give_up(key, Failure::none);
  record.shared.clear();
  ask(record);
}

// Where many of a user's jobs have directories that take long to be looked at, the last ones would
// wait longer than their staging takes.
void Sharing::ask(const JobRecord& record) {
  const std::uint32_t uid = record.begin.uid;
  const JobKey key = record.key();
  turns_.ask(uid, key, [this, key] { return identify(key); });
  if (!turns_.is_waiting(uid, key)) return;
  deps_.loop.after(deps_.workers.bounds(record, WorkerTask::identify).limits.run, [this, uid, key] {
    if (turns_.leave(uid, key)) conclude(key);
  });
}

Turns::Begun Sharing::identify(const JobKey& key) {
  JobRecord* record = deps_.table.find(key);
  if (record == nullptr || record->state != JobState::queued) return Turns::Begun::no;
  // Its word is about what could be opened then.
  deps_.files.forget_status(key, WorkerTask::look);
  const auto directory = deps_.files.directory(*record);
  Status started;
  if (directory) {
    WorkerStart start = deps_.workers.order(*record, WorkerTask::identify);
    start.directory_fd = directory->get();
    const auto on_end = [this, uid = record->begin.uid](const JobKey& ended, const WorkerEnd& end) {
      identified(ended, uid, end);
    };
    Fd sources;
    if (refusal(*record).empty()) {
      std::get<IdentifyOrder>(start.order).cache = deps_.cache.path();
      sources = deps_.keeping.look(*record, start, on_end);
    }
    started = deps_.workers.start(*record, start,
                                  deps_.workers.bounds(*record, WorkerTask::identify), on_end);
    // Without it, `look` ends at once, and says nothing.
    if (!started) deps_.workers.kill(key, WorkerTask::look);
  } else {
    started = directory.error();
  }
  if (started || deps_.workers.is_working(key, WorkerTask::look)) return Turns::Begun::yes;
  // The staging itself reports what is wrong.
  log::warn(about(*record), "its shared items cannot be identified: {}", started.error().what);
  deps_.loop.after(std::chrono::milliseconds(0), [this, key] { conclude(key); });
  return Turns::Begun::no;
}

// After both processes, where there are two.
void Sharing::identified(const JobKey& key, std::uint32_t uid, const WorkerEnd& end) {
  if (deps_.workers.is_working(key, WorkerTask::identify) ||
      deps_.workers.is_working(key, WorkerTask::look))
    return;
  JobRecord* record = deps_.table.find(key);
  if (record != nullptr && record->state == JobState::queued) {
    if (deps_.files.status(key, WorkerTask::identify).phase != WorkerPhase::done)
      log::warn(about(*record), "its shared items were not identified: the process {}", end.text);
    take_keys(*record);
  }
  turns_.end(uid, key);
}

// Waiting costs less than staging for this job alone, and again for each further one.
bool Sharing::is_unsettled(const JobKey& key, const WorkerStatus& status) {
  const ItemRecord* last = nullptr;
  for (const ItemRecord& item : status.items) {
    if ((item.flags & k_item_unsettled) == 0) continue;
    if (last == nullptr || item.ended_ms > last->ended_ms) last = &item;
  }
  if (last == nullptr || last->ended_ms <= deps_.loop.wall_ms()) return false;
  const std::string name = last_part(printable(field_text(last->source)));
  return unsettled_.emplace(key, Unsettled{name, last->ended_ms}).second;
}

void Sharing::await_settled(const JobRecord& record) {
  const JobKey key = record.key();
  const std::uint64_t now = deps_.loop.wall_ms();
  const std::uint64_t pause = std::max(unsettled_[key].until_ms, now) - now;
  deps_.loop.after(std::chrono::milliseconds(std::min(pause, k_longest_pause_ms)), [this, key] {
    if (deps_.events.step_of(key) == Step::await_settled) deps_.events.done(key, Fact::settled);
  });
}

Sharing::Want Sharing::want_of(const JobRecord& record, const ItemRecord& item, std::uint32_t index,
                               bool for_readers) const {
  Want want;
  want.shared.item = index;
  want.shared.for_readers = for_readers;
  CacheEntry& entry = want.entry;
  want.shared.key = field_text(item.name);
  set_owner(record, want.shared, entry);
  entry.tree = field_text(item.what);
  entry.source = printable(field_text(item.source));
  entry.source_bytes = item.bytes_total;
  entry.made_by = record.key();
  if (!entry.name.empty() && is_tree_name(entry.tree)) return want;
  want.is_open = false;
  want.shared.key.clear();
  want.shared.note = printable(field_text(item.note), Newlines::join);
  return want;
}

// Why nothing is kept for this job; empty when it can be.
std::string Sharing::refusal(const JobRecord& record) const {
  if (broken_.contains(record.begin.uid)) return "this node's file system cannot keep it";
  if (!deps_.cache.refusal().empty()) return deps_.cache.refusal();
  const auto directory = deps_.files.directory(record);
  return directory && deps_.cache.is_on_its_disk(directory->get())
             ? ""
             : "the job directory is on another file system than what is kept";
}

// ---- who stages

void Sharing::settle(const JobKey& key) {
  const JobRecord* record = deps_.table.find(key);
  const auto found = askers_.find(key);
  if (record == nullptr || found == askers_.end()) return;
  for (Want& want : found->second.wants)
    if (want.is_open) settle(*record, found->second, want);
  const auto& wants = found->second.wants;
  if (std::none_of(wants.begin(), wants.end(), [](const Want& want) { return want.is_open; }))
    return conclude(key);
  const bool has_to_keep = std::any_of(wants.begin(), wants.end(), [this](const Want& want) {
    return want.is_open && want.shared.for_readers && !fills_[want.entry.name].has_leader;
  });
  const bool is_kept_now = deps_.keeping.is_keeping(key);
  deps_.events.done(key, has_to_keep && !is_kept_now ? Fact::to_keep : Fact::led);
}

void Sharing::settle(const JobRecord& record, Asker& asker, Want& want) {
  const JobKey key = record.key();
  SharedItem& shared = want.shared;
  if (const CacheEntry* kept = deps_.cache.find(want.entry.name)) {
    if (!deps_.cache.use(kept->name, key, record.begin.uid)) return want.become_own(k_no_way_in);
    want.is_open = false;
    shared.role = ShareRole::link;
    shared.path = deps_.cache.area().path_of(*kept);
    const bool is_made_here = shared.elapsed_ms != 0;
    shared.note = (is_made_here ? "kept on this node" : "staged by " + maker_of(*kept)) +
                  (shared.for_readers ? k_for_all : "");
    return;
  }
  if (const std::string why = refusal(record); !why.empty()) return want.become_own(why);
  const bool is_twice = std::any_of(asker.wants.begin(), asker.wants.end(), [&](const Want& other) {
    return &other != &want && !other.is_open && other.shared.role == ShareRole::lead &&
           other.entry.name == want.entry.name;
  });
  if (is_twice) return want.become_own("the job asks for it twice");
  Fill& fill = fills_[want.entry.name];
  if (fill.failures >= k_most_failures)
    return want.become_own("jobs before this one could not stage it");
  const bool is_led_here = fill.is_led_by(key);
  if (shared.for_readers && asker.is_late && !is_led_here)
    return want.become_own("nobody's job has staged it for all who may read it within " +
                           human_duration(deps_.config.cache.readers_wait_s * 1000));
  if (shared.for_readers || (fill.has_leader && !is_led_here)) return;  // it waits
  if (const Status reserved = deps_.cache.reserve(want.entry); !reserved) {
    if (fill.failures == 0) fills_.erase(want.entry.name);
    return want.become_own(reserved.error().what);
  }
  fill.entry = want.entry;
  fill.has_leader = true;
  want.is_open = false;
  shared.role = ShareRole::lead;
  shared.path = deps_.cache.area().path_of(want.entry);
}

void Sharing::conclude(const JobKey& key) {
  JobRecord* record = deps_.table.find(key);
  const auto node = askers_.extract(key);
  if (record == nullptr || record->state != JobState::queued) return;
  std::size_t links = 0;
  if (!node.empty()) {
    for (const Want& want : node.mapped().wants) {
      record->shared.push_back(want.shared);
      Counters::Cache& counts = deps_.counters.cache;
      if (want.shared.role == ShareRole::lead) ++counts.misses;
      if (want.shared.role == ShareRole::own) ++counts.refused;
      if (want.shared.role != ShareRole::link) continue;
      ++links;
      const CacheEntry* entry = deps_.cache.find(want.entry.name);
      if (entry != nullptr && entry->made_by == key)
        ++counts.misses;
      else
        deps_.cache.hit(want.entry.name, record->begin.uid);
    }
    for (const Want& want : node.mapped().wants) drop_unwanted(want.entry.name);
  }
  deps_.table.save(*record);
  const bool is_all = links > 0 && links == node.mapped().items;
  deps_.events.done(key, is_all ? Fact::linked : Fact::identified);
}

// Those who wait for the entry, the earliest first.
void Sharing::go_on(const std::string& name) {
  std::vector<std::pair<std::uint64_t, JobKey>> waiting;
  for (const auto& [key, asker] : askers_)
    if (asker.waits_for(name)) waiting.emplace_back(asker.turn, key);
  std::sort(waiting.begin(), waiting.end());
  for (const auto& [turn, key] : waiting) settle(key);
  drop_unwanted(name);
}

void Sharing::drop_unwanted(const std::string& name) {
  const auto fill = fills_.find(name);
  if (fill == fills_.end() || fill->second.has_leader) return;
  const bool is_wanted = std::any_of(askers_.begin(), askers_.end(), [&name](const auto& asker) {
    return asker.second.waits_for(name);
  });
  if (!is_wanted) fills_.erase(fill);
}

// ---- what was staged

namespace {

ItemRecord item_of(const SharedItem& shared, const WorkerStatus& status) {
  return shared.item < status.items.size() ? status.items[shared.item] : ItemRecord{};
}

}  // namespace

bool Sharing::is_led(const JobRecord& record, const SharedItem& shared) const {
  const auto fill = fills_.find(name_of(record, shared));
  return shared.role == ShareRole::lead && !shared.for_readers && fill != fills_.end() &&
         fill->second.is_led_by(record.key());
}

bool Sharing::has_news(const JobRecord& record, const WorkerStatus& status) const {
  return std::any_of(record.shared.begin(), record.shared.end(), [&](const SharedItem& shared) {
    return is_led(record, shared) && !is_unfinished(item_of(shared, status));
  });
}

Status Sharing::staged(JobRecord& record, const WorkerStatus& status, Report report) {
  const JobKey key = record.key();
  Status fault;
  for (SharedItem& shared : record.shared) {
    if (!is_led(record, shared)) continue;
    const std::string name = name_of(record, shared);
    const auto fill = fills_.find(name);
    const ItemRecord item = item_of(shared, status);
    if (report == Report::more && is_unfinished(item)) continue;
    const bool is_whole = is_done(item) && (item.flags & k_item_whole) != 0;
    const Status kept = is_whole ? keep(record, item, fill->second.entry) : Status();
    if (!kept) {
      plain_.insert(key);
      fault = kept;
    }
    if (is_whole && kept) {
      shared.role = ShareRole::link;
      lead_ended(name, Failure::none);
    } else {
      shared = {shared.item, ShareRole::own, "", "", kept ? "" : "it could not be kept"};
      deps_.cache.abandon(fill->second.entry);
      lead_ended(name, Failure::counts);
    }
  }
  return fault;
}

Status Sharing::publish(const JobRecord& record, const ItemRecord& item, CacheEntry entry,
                        int directory, const std::string& path) {
  entry.what = printable(field_text(item.what));
  entry.bytes = item.bytes_written;
  entry.files = item.files;
  entry.array_job = record.facts.array_job;
  entry.array_task = record.facts.array_task;
  entry.het_job = record.begin.het_job;
  return deps_.cache.publish(std::move(entry), record.begin.uid, directory,
                             destination_in(item, path));
}

Status Sharing::keep(const JobRecord& record, const ItemRecord& item, const CacheEntry& entry) {
  TRY_ASSIGN(const Fd directory, deps_.files.directory(record));
  Status kept = publish(record, item, entry, directory.get(), deps_.files.path(record));
  if (kept) return kept;
  log::error(about_item(record, entry.source), "cannot be kept for further jobs: {}",
             kept.error().what);
  if (kept.error().code == EXDEV || kept.error().code == EINVAL) broken_.insert(record.begin.uid);
  return kept;
}

void Sharing::lead_ended(const std::string& name, Failure failure) {
  const auto fill = fills_.find(name);
  if (fill == fills_.end()) return;
  fill->second.has_leader = false;
  if (failure == Failure::counts) ++fill->second.failures;
  go_on(name);
}

void Sharing::give_up(const JobKey& key, Failure failure) {
  const auto asker = askers_.extract(key);
  if (!asker.empty())
    for (const Want& want : asker.mapped().wants) drop_unwanted(want.entry.name);
  std::vector<CacheEntry> entries;
  for (const auto& [name, fill] : fills_)
    if (fill.is_led_by(key)) entries.push_back(fill.entry);
  // A user whose jobs end while they stage for others would have these wait again and again.
  if (deps_.keeping.is_keeping(key)) failure = Failure::counts;
  for (const CacheEntry& entry : entries) {
    deps_.cache.abandon(entry);
    lead_ended(entry.name, failure);
  }
}

bool Sharing::is_settled(const JobRecord& record) const {
  return std::all_of(record.shared.begin(), record.shared.end(), [&](const SharedItem& shared) {
    return deps_.cache.is_settled(name_of(record, shared));
  });
}

// In the journal, too, or after a restart of the daemon others would wait for this job.
void Sharing::failed(JobRecord& record) {
  for (SharedItem& shared : record.shared) {
    if (shared.role == ShareRole::lead)
      shared = {shared.item, ShareRole::own, "", "", "it could not be kept"};
  }
  give_up(record.key(), Failure::counts);
}

bool Sharing::leads(const JobKey& key) const {
  return std::any_of(fills_.begin(), fills_.end(),
                     [&key](const auto& item) { return item.second.is_led_by(key); });
}

void Sharing::release(const JobRecord& record) {
  const JobKey key = record.key();
  deps_.keeping.kill(key);
  give_up(key, Failure::none);
  deps_.cache.release(key);
  plain_.erase(key);
  unsettled_.erase(key);
}

void Sharing::carry_on(const JobRecord& record) {
  if (record.ended) return;
  for (const SharedItem& shared : record.shared) {
    Fill fill;
    CacheEntry& entry = fill.entry;
    if (name_of(record, shared).empty()) continue;
    set_owner(record, shared, entry);
    const Status used = deps_.cache.use(entry.name, record.key(), record.begin.uid);
    if (!used) log::error(about(record), "can no longer enter {}", shared.path);
    if (shared.role != ShareRole::lead) continue;
    entry.tree = last_part(shared.path);
    entry.directory = last_part(shared.path.substr(0, shared.path.rfind('/')));
    entry.made_by = record.key();
    fill.has_leader = true;
    fills_.insert_or_assign(entry.name, std::move(fill));
  }
}

std::string Sharing::maker_of(const CacheEntry& entry) const {
  const JobRecord* record = deps_.table.find(entry.made_by);
  if (record != nullptr && record->facts.known)
    return job_name(entry.made_by.job, record->facts.array_job, record->facts.array_task,
                    record->begin.het_job);
  return job_name(entry.made_by.job, entry.array_job, entry.array_task, entry.het_job);
}

std::string Sharing::waits_for(const JobKey& key) const {
  if (deps_.workers.is_working(key, WorkerTask::keep)) return kept_now(key);
  if (deps_.events.step_of(key) == Step::await_settled)
    return unsettled_.at(key).name + ", which was just changed, to stay as it is for a while";
  const JobRecord* record = deps_.table.find(key);
  if (record != nullptr && turns_.is_waiting(record->begin.uid, key))
    return "its turn to look at what it shares";
  const auto asker = askers_.find(key);
  if (asker == askers_.end()) return {};
  for (const Want& want : asker->second.wants) {
    const auto fill = want.is_open ? fills_.find(want.entry.name) : fills_.end();
    if (fill != fills_.end() && fill->second.has_leader && !fill->second.is_led_by(key))
      return maker_of(fill->second.entry) + ", which stages " + last_part(want.entry.source) +
             " for both";
  }
  return {};
}

}  // namespace nodestage
