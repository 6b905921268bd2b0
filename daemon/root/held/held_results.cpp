#include "daemon/root/held/held_results.hpp"

#include <algorithm>
#include <climits>
#include <utility>

#include "common/talk/summary.hpp"
#include "common/text/human.hpp"
#include "daemon/root/basis/log.hpp"
#include "daemon/root/held/hold.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::seconds k_measure_limit{600};
constexpr std::uint64_t k_first_pause_s = 60;
constexpr std::uint64_t k_most_pause_s = 3600;
constexpr std::uint64_t k_again_s = 3600;

}  // namespace

void Measurements::ask(const JobRecord& record) {
  const JobKey key = record.key();
  if (is_running(key)) return;
  if (const auto tries = tries_.find(key); tries != tries_.end()) tries->second.due.reset();
  turns_.ask(record.begin.uid, key, [this, key] { return start(key); });
}

void Measurements::expect(const JobKey& key) {
  if (!is_running(key)) tries_.try_emplace(key, Tries{0, 0, deps_.loop.wall_s() + k_again_s});
}

bool Measurements::is_running(const JobKey& key) const {
  return deps_.workers.is_working(key, WorkerTask::measure);
}

std::optional<std::uint64_t> Measurements::due(const JobKey& key) const {
  const auto tries = tries_.find(key);
  return tries == tries_.end() ? std::nullopt : tries->second.due;
}

bool Measurements::is_late(const JobKey& key) const {
  const auto found = tries_.find(key);
  if (found == tries_.end()) return false;
  const Tries& tries = found->second;
  return tries.failed > 0 ||
         (tries.since != 0 && deps_.loop.wall_s() >= tries.since + k_first_pause_s);
}

Turns::Begun Measurements::start(const JobKey& key) {
  JobRecord* record = deps_.table.find(key);
  if (record == nullptr || record->hold.since == 0 || record->state == JobState::gone ||
      is_leaving_(key))
    return Turns::Begun::no;
  const auto tree = deps_.files.directory(*record);
  if (!tree) return Turns::Begun::no;
  WorkerStart order = deps_.workers.order(*record, WorkerTask::measure);
  order.directory_fd = tree->get();
  JobWorkers::Bounds bounds = deps_.workers.bounds(*record, WorkerTask::measure);
  bounds.resources.cpus = 1;
  bounds.limits.run = k_measure_limit;
  const Status started = deps_.workers.start(
      *record, order, bounds,
      [this, uid = record->begin.uid](const JobKey& ended, const WorkerEnd& end) {
        measured(ended, uid, end);
      });
  Tries& tries = tries_[key];
  if (tries.since == 0) tries.since = deps_.loop.wall_s();
  if (started) return Turns::Begun::yes;
  log::error(about(*record), "cannot be measured: {}", started.error().what);
  try_later(key);
  return Turns::Begun::failed;
}

void Measurements::measured(const JobKey& key, std::uint32_t uid, const WorkerEnd& end) {
  turns_.end(uid, key);
  JobRecord* record = deps_.table.find(key);
  if (record == nullptr) return;
  const WorkerStatus status = deps_.files.status(key, WorkerTask::measure);
  if (status.phase != WorkerPhase::done || status.items.empty()) {
    log::warn(about(*record), "cannot be measured: the process {}", end.text);
    record->hold.is_measured = false;
    deps_.table.save(*record);
    return try_later(key);
  }
  tries_[key] = Tries{0, 0, deps_.loop.wall_s() + k_again_s};
  on_end_(key);
  note(*record, status.items[0]);
}

void Measurements::note(JobRecord& record, const ItemRecord& measured) {
  HoldRecord& hold = record.hold;
  if (hold.is_measured && hold.bytes == measured.bytes_total && hold.inodes == measured.files)
    return;
  hold.bytes = measured.bytes_total;
  hold.inodes = measured.files;
  hold.is_measured = true;
  log::info(about(record), "{} are held, in {} files and directories", human_bytes(hold.bytes),
            human_count(hold.inodes));
  deps_.table.save(record);
}

void Measurements::try_later(const JobKey& key) {
  Tries& tries = tries_[key];
  tries.due = deps_.loop.wall_s() + retry_delay_s(++tries.failed, k_first_pause_s, k_most_pause_s);
  on_end_(key);
}

namespace {

// The clock can be changed, so no wait for a date is one long sleep.
constexpr std::uint64_t k_longest_sleep_s = 600;

bool is_usable(const std::string& directory) {
  return directory.starts_with('/') && directory.size() < PATH_MAX &&
         directory.find('\0') == std::string::npos;
}

Refused several(const std::vector<JobKey>& keys) {
  std::string names;
  for (const JobKey& key : keys) names += (names.empty() ? "" : ", ") + to_text(key);
  return {RefusalReason::busy, "several runs of this job are held; name one: " + names};
}

}  // namespace

void HeldResults::hold(JobRecord& record) {
  note_failure(record);
  deps_.table.change(record, JobState::held);
  measurements_.ask(record);
  deps_.events.done(record.key(), Fact::held);
}

// Notes what was learned, and when the next try comes.
void HeldResults::note_failure(JobRecord& record) {
  HoldRecord& hold = record.hold;
  const WorkerStatus status = deps_.files.status(record.key(), WorkerTask::stage_out);
  const std::uint64_t now = deps_.loop.wall_s();
  if (hold.since == 0) hold.since = now;
  const std::vector<std::string> reasons = reasons_of(status, record.cause);
  if (reasons != hold.reasons) hold.notice_is_current = false;
  hold.reasons = reasons;
  hold.delivered |= delivered_items(status);
  hold.waits_for_user = waits_for_user(status);
  hold.retry_at = 0;
  if (!can_try_again(status)) return;
  const Config::Hold& settings = deps_.config.hold;
  const auto delay =
      retry_delay_s(record.stage_outs, settings.retry_first_s, settings.retry_most_s);
  hold.retry_at = now + delay;
  log::info(about(record), "delivery is tried again in {}", human_duration(delay * 1000));
}

void HeldResults::look_after(JobRecord& record) {
  if (is_taken_away(record)) return deps_.events.done(record.key(), Fact::released);
  if (record.hold.is_measured)
    measurements_.expect(record.key());
  else
    measurements_.ask(record);
  if (!record.hold.notice_is_current) write_held_notice(record);
  recoveries_.go_on(record);
  set_timer(record.key());
}

void HeldResults::settings_changed() {
  for (const auto& [key, record] : deps_.table.all()) set_timer(key);
}

void HeldResults::cancel_timer(const JobKey& key) {
  const auto node = timers_.extract(key);
  if (!node.empty()) deps_.loop.cancel(node.mapped());
}

void HeldResults::set_timer(const JobKey& key) {
  cancel_timer(key);
  JobRecord* record = deps_.table.find(key);
  if (record == nullptr || record->state != JobState::held || is_leaving(key)) return;
  const std::uint64_t now = deps_.loop.wall_s();
  mend_times(record->hold, deps_.config.hold, now);
  const std::uint64_t next = next_date(*record);
  const auto sleep = std::clamp<std::uint64_t>(next > now ? next - now : 0, 1, k_longest_sleep_s);
  timers_[key] = deps_.loop.after(std::chrono::seconds(sleep), [this, key] {
    timers_.erase(key);
    timer_due(key);
  });
}

std::uint64_t HeldResults::next_date(const JobRecord& record) const {
  const HoldTimes times = hold_times(record.hold, deps_.config.hold);
  const JobKey key = record.key();
  std::uint64_t next = record.hold.warned_at == 0 ? times.warn : times.expire;
  if (record.hold.retry_at != 0 && !retries_.is_waiting(record.begin.uid, key))
    next = std::min(next, record.hold.retry_at);
  if (const auto due = measurements_.due(key)) next = std::min(next, *due);
  return next;
}

void HeldResults::timer_due(const JobKey& key) {
  JobRecord* record = deps_.table.find(key);
  if (record == nullptr || record->state != JobState::held) return;
  const HoldRecord& hold = record->hold;
  const std::uint64_t now = deps_.loop.wall_s();
  if (hold.warned_at == 0 && now >= hold_times(hold, deps_.config.hold).warn) warn(*record);
  if (is_expired(*record)) {
    log::warn(about(*record),
              "results that could not be delivered are removed, having been kept since {}",
              human_date(hold.since));
    return release(*record, expired_notice(*record),
                   std::string(k_kept_removed) + "after the time for which the site holds them");
  }
  const auto due = measurements_.due(key);
  if (due && now >= *due) measurements_.ask(*record);
  if (!is_busy(key) && hold.retry_at != 0 && now >= hold.retry_at)
    retries_.ask(record->begin.uid, key, [this, key] { return try_again(key); });
  set_timer(key);
}

bool HeldResults::is_expired(const JobRecord& record) const {
  return !is_busy(record.key()) && record.hold.warned_at != 0 &&
         deps_.loop.wall_s() >= hold_times(record.hold, deps_.config.hold).expire;
}

bool HeldResults::is_busy(const JobKey& key) const {
  return measurements_.is_running(key) || recoveries_.is_busy(key);
}

void HeldResults::warn(JobRecord& record) {
  record.hold.warned_at = deps_.loop.wall_s();
  log::warn(about(record), "results that could not be delivered are removed on {}",
            human_date(hold_times(record.hold, deps_.config.hold).expire));
  deps_.table.save(record);
  write_held_notice(record);
}

Turns::Begun HeldResults::try_again(const JobKey& key) {
  JobRecord* record = deps_.table.find(key);
  if (record == nullptr || record->state != JobState::held || is_leaving(key))
    return Turns::Begun::no;
  if (is_taken_away(*record)) {
    deps_.events.done(key, Fact::released);
    return Turns::Begun::no;
  }
  if (is_busy(key)) {
    set_timer(key);  // which asks again
    return Turns::Begun::no;
  }
  log::info(about(*record), "delivery is tried again");
  deps_.events.done(key, Fact::retry_due);
  record = deps_.table.find(key);
  return record != nullptr && record->state == JobState::staging_out ? Turns::Begun::yes
                                                                     : Turns::Begun::failed;
}

// By the administrators.
bool HeldResults::is_taken_away(const JobRecord& record) {
  if (!record.in_hold) return false;
  const auto tree = deps_.areas.open_held(record.key(), record.begin.uid);
  if (!tree || *tree) return false;
  log::warn(about(record), "the held results were taken away from {}",
            deps_.areas.held_path(record.key()));
  partings_[record.key()] = k_kept_taken;
  return true;
}

// The notice comes first: if this daemon is killed meanwhile, the next one does both again.
void HeldResults::release(JobRecord& record, const std::string& text, std::string parting) {
  partings_[record.key()] = std::move(parting);
  write_notice(record, text, [this, key = record.key()](Notices::Written) {
    deps_.events.done(key, Fact::released);
  });
}

std::string HeldResults::parting(const JobKey& key) const {
  const auto found = partings_.find(key);
  return found == partings_.end() ? "" : found->second;
}

void HeldResults::forget(const JobRecord& record) {
  const JobKey key = record.key();
  recoveries_.answer(record, Recovered{{"nothing is held any more: the results were delivered"}});
  cancel_timer(key);
  measurements_.forget(key);
  partings_.erase(key);
}

void HeldResults::write_notice(const JobRecord& record, const std::string& text,
                               Notices::OnWritten done) const {
  WorkerStart start = deps_.workers.order(record, WorkerTask::notice);
  start.request = text;
  deps_.notices.write(std::move(start), about(record, "notice"), std::move(done));
}

// A notice that could not be written is tried again with the next failed delivery.
void HeldResults::write_held_notice(const JobRecord& record) {
  write_notice(record, held_notice(record, deps_.config.hold),
               [this, key = record.key()](Notices::Written outcome) {
                 JobRecord* current = deps_.table.find(key);
                 if (current == nullptr || outcome == Notices::Written::no) return;
                 current->hold.notice_is_current = true;
                 deps_.table.save(*current);
               });
}

std::vector<JobKey> HeldResults::find(const Recover& ask) const {
  std::vector<JobKey> keys;
  for (const auto& [key, record] : deps_.table.all()) {
    const bool meant =
        key.job == ask.job && (ask.restart == k_no_number || ask.restart == key.restart);
    if (meant && record.hold.since != 0) keys.push_back(key);
  }
  return keys;
}

Ticket HeldResults::recover(const Recover& ask, Ticket ticket, const Reply& reply) {
  const auto refuse = [&reply](const Refused& refusal) { return answered(reply, refusal); };
  if (!is_usable(ask.directory))
    return refuse({RefusalReason::malformed, "the directory must be an absolute path"});
  const auto keys = find(ask);
  if (keys.empty()) return refuse({RefusalReason::unknown_job, "no results of this job are held"});
  if (keys.size() > 1) return refuse(several(keys));
  const JobKey key = keys.front();
  JobRecord& record = *deps_.table.find(key);
  const bool is_tried = deps_.workers.is_working(key, WorkerTask::stage_out);
  const bool can_start = record.state == JobState::held || is_tried;
  if (recoveries_.is_busy(key) || is_leaving(key) || !can_start)
    return refuse(
        {RefusalReason::busy, "the results of this job are being recovered or removed now"});
  recoveries_.ask(record, ticket, reply, ask.directory);
  // A try under way can hang, so it is killed; look_after() follows its end.
  if (is_tried)
    deps_.workers.kill(key, WorkerTask::stage_out);
  else
    recoveries_.go_on(record);
  return recoveries_.is_busy(key) ? ticket : 0;
}

void HeldResults::recovery_ended(const JobKey& key, const std::optional<std::string>& directory) {
  JobRecord* record = deps_.table.find(key);
  if (record == nullptr) return;
  if (!directory) return set_timer(key);
  write_notice(*record, recovered_notice(*record, *directory), [](Notices::Written) {});
  partings_[key] = std::string(k_kept_recovered) + *directory;
  deps_.events.done(key, Fact::released);
}

std::string HeldResults::refusal_of_outputs(const JobRecord& record) const {
  if (!record.directory_is_ours && deps_.config.stageout.unkept == UnkeptOutputs::refuse) {
    const auto tree = deps_.files.directory(record);
    if (tree && deps_.areas.is_mount(tree->get()))
      return unkept_refusal(deps_.areas.path_of(record.directory), record.begin.node);
  }
  std::vector<HeldTree> held;
  for (const auto& [key, other] : deps_.table.all()) {
    if (other.begin.uid != record.begin.uid || other.hold.since == 0) continue;
    const bool is_late = !other.hold.is_measured && measurements_.is_late(key);
    held.push_back({key, other.hold.bytes, other.hold.inodes, is_late});
  }
  return outputs_refusal(held, record.begin.node, deps_.config.hold);
}

}  // namespace nodestage
