// Results that could not be delivered: kept, measured, told of, tried again, and let go in the end.
#include <algorithm>

#include "common/text/human.hpp"
#include "daemon/root/basis/log.hpp"
#include "daemon/root/jobs/hold.hpp"
#include "daemon/root/jobs/jobs.hpp"
#include "daemon/root/jobs/worker_orders.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::seconds k_measure_limit{600};
constexpr std::uint64_t k_first_measure_pause_s = 60;
constexpr std::uint64_t k_most_measure_pause_s = 3600;
// The clock may be set, so no wait for a date is one long sleep.
constexpr std::uint64_t k_longest_sleep_s = 600;

}  // namespace

// A stage-out has failed: what was learnt, and when the next comes. Does not write the journal.
void Jobs::note_failure(Job& job) {
  HoldRecord& hold = job.record.hold;
  const WorkerStatus status = worker_status(job, WorkerTask::stage_out);
  if (hold.since == 0) hold.since = epoch_now();
  const std::vector<std::string> reasons = reasons_of(status, job.record.cause);
  if (reasons != hold.reasons) hold.is_told = false;
  hold.reasons = reasons;
  hold.delivered |= delivered_items(status);
  hold.retry_at = 0;
  if (can_try_again(status)) {
    const Config::Hold& settings = at_.config.hold;
    const auto delay =
        retry_delay_s(job.record.stage_outs, settings.retry_first_s, settings.retry_most_s);
    hold.retry_at = epoch_now() + delay;
    log::info(about(job.record), "delivery is tried again in {}", human_duration(delay * 1000));
  }
}

// At the beginning of each time in the hold area, and at the start of a daemon.
void Jobs::look_after(Job& job) {
  if (is_taken_away(job)) return finish(job);
  if (!job.record.hold.is_measured) measure(job);
  if (!job.record.hold.is_told) tell_held(job);
  if (job.recovery && !job.recovery->worker) queue_recovery(job);
  set_hold_timer(job);
}

void Jobs::set_hold_timer(Job& job) {
  if (job.hold_timer) at_.loop.cancel(*job.hold_timer);
  job.hold_timer.reset();
  if (job.record.state != JobState::held || job.is_leaving) return;
  const std::uint64_t now = epoch_now();
  HoldRecord& hold = job.record.hold;
  mend_times(hold, at_.config.hold, now);
  const HoldTimes times = hold_times(hold, at_.config.hold);
  const JobKey key = job.record.key();
  std::uint64_t next = hold.warned_at == 0 ? times.warn : times.expire;
  if (hold.retry_at != 0 && !retries_.is_waiting(job.record.begin.uid, key))
    next = std::min(next, hold.retry_at);
  if (job.measure_at != 0) next = std::min(next, job.measure_at);
  const auto sleep = std::clamp<std::uint64_t>(next > now ? next - now : 0, 1, k_longest_sleep_s);
  job.hold_timer = at_.loop.after(std::chrono::seconds(sleep), [this, key] {
    if (Job* held = find(key)) held->hold_timer.reset();
    hold_timer_due(key);
  });
}

void Jobs::hold_timer_due(const JobKey& key) {
  Job* job = find(key);
  if (job == nullptr || job->record.state != JobState::held) return;
  HoldRecord& hold = job->record.hold;
  const std::uint64_t now = epoch_now();
  if (hold.warned_at == 0 && now >= hold_times(hold, at_.config.hold).warn) warn(*job);
  const bool is_busy = job->is_being_measured || job->recovery.has_value();
  if (!is_busy && hold.warned_at != 0 && now >= hold_times(hold, at_.config.hold).expire) {
    log::warn(about(job->record),
              "results that could not be delivered are removed, having been kept since {}",
              human_date(hold.since));
    job->parting = "the results were removed, having been held for their time";
    return let_go(*job, expired_notice(job->record));
  }
  if (job->measure_at != 0 && now >= job->measure_at) measure(*job);
  if (!is_busy && hold.retry_at != 0 && now >= hold.retry_at)
    retries_.ask(job->record.begin.uid, key, [this, key] { return try_again(key); });
  job = find(key);
  if (job != nullptr) set_hold_timer(*job);
}

void Jobs::warn(Job& job) {
  job.record.hold.warned_at = epoch_now();
  log::warn(about(job.record), "results that could not be delivered are removed on {}",
            human_date(hold_times(job.record.hold, at_.config.hold).expire));
  save(job);
  tell_held(job);
}

Turns::Begun Jobs::try_again(const JobKey& key) {
  Job* job = find(key);
  if (job == nullptr || job->record.state != JobState::held || job->is_leaving)
    return Turns::Begun::no;
  if (is_taken_away(*job)) {
    finish(*job);
    return Turns::Begun::no;
  }
  // The timer comes again.
  if (job->is_being_measured || job->recovery) {
    set_hold_timer(*job);
    return Turns::Begun::no;
  }
  log::info(about(job->record), "delivery is tried again");
  start_stage_out(*job);
  return job->record.state == JobState::staging_out ? Turns::Begun::yes : Turns::Begun::failed;
}

// By the administrators.
bool Jobs::is_taken_away(Job& job) const {
  const JobRecord& record = job.record;
  if (!record.in_hold) return false;
  const auto tree = at_.areas.open_held(record.key(), record.begin.uid);
  if (!tree || *tree) return false;
  log::warn(about(record), "the held results were taken away from {}",
            at_.areas.held_path(record.key()));
  job.parting = "the administrators took the held results away";
  return true;
}

// The user is told first: a daemon that is killed meanwhile has the next one do both again.
void Jobs::let_go(Job& job, const std::string& text) {
  job.is_leaving = true;
  tell_user(job, text, [this, key = job.record.key()](Notices::Told) {
    if (Job* told = find(key)) finish(*told);
  });
}

void Jobs::measure(Job& job) {
  if (job.is_being_measured) return;
  job.measure_at = 0;
  measures_.ask(job.record.begin.uid, job.record.key(),
                [this, key = job.record.key()] { return start_measure(key); });
}

Turns::Begun Jobs::start_measure(const JobKey& key) {
  Job* job = find(key);
  if (job == nullptr || job->record.hold.since == 0 || job->is_leaving) return Turns::Begun::no;
  const auto tree = files_.directory(job->record);
  const auto status = files_.new_status(key, WorkerTask::measure);
  if (!tree || !status) return Turns::Begun::no;
  WorkerStart start = order_of(*job, WorkerTask::measure);
  start.directory_fd = tree->get();
  start.status_fd = status->get();
  Workers::Limits limits = limits_of(WorkerTask::measure, at_.config);
  limits.run = k_measure_limit;
  const auto id = at_.workers.start(
      start, {1, at_.config.worker.memory_bytes, at_.config.worker.pids}, limits,
      about(job->record, "worker"), [this, key, uid = job->record.begin.uid](const WorkerEnd& end) {
        measures_.end(uid, key);
        measured(key, end);
      });
  job->is_being_measured = static_cast<bool>(id);
  if (job->measure_since == 0) job->measure_since = epoch_now();
  if (id) return Turns::Begun::yes;
  log::error(about(job->record), "cannot be measured: {}", id.error().what);
  measure_later(*job);
  return Turns::Begun::failed;
}

void Jobs::measured(const JobKey& key, const WorkerEnd& end) {
  Job* job = find(key);
  if (job == nullptr) return;
  job->is_being_measured = false;
  const WorkerStatus status = worker_status(*job, WorkerTask::measure);
  if (status.phase != WorkerPhase::done || status.items.empty()) {
    log::error(about(job->record), "cannot be measured: the process {}", end.text);
    return measure_later(*job);
  }
  job->record.hold.bytes = status.items[0].bytes_total;
  job->record.hold.is_measured = true;
  log::info(about(job->record), "{} are held", human_bytes(job->record.hold.bytes));
  save(*job);
}

void Jobs::measure_later(Job& job) {
  job.measure_at =
      epoch_now() + retry_delay_s(++job.measures, k_first_measure_pause_s, k_most_measure_pause_s);
  set_hold_timer(job);
}

void Jobs::tell_user(const Job& job, const std::string& text, Notices::OnTold told) {
  WorkerStart start = order_of(job, WorkerTask::notice);
  start.request = text;
  notices_.tell(std::move(start), about(job.record, "notice"), std::move(told));
}

// What could not be written is tried again with the next failed delivery.
void Jobs::tell_held(Job& job) {
  const HoldTimes times = hold_times(job.record.hold, at_.config.hold);
  tell_user(job, held_notice(job.record, times),
            [this, key = job.record.key()](Notices::Told outcome) {
              Job* told = find(key);
              if (told == nullptr || outcome == Notices::Told::no) return;
              told->record.hold.is_told = true;
              save(*told);
            });
}

std::string Jobs::refusal_of_outputs(const Job& of) const {
  const JobRecord& record = of.record;
  if (!record.directory_is_ours && at_.config.stageout.unkept == UnkeptOutputs::refuse) {
    const auto tree = files_.directory(record);
    if (tree && at_.areas.is_mount(tree->get()))
      return unkept_refusal(at_.areas.path_of(record.directory), record.begin.node);
  }
  std::vector<HeldTree> held;
  const std::uint64_t now = epoch_now();
  for (const auto& [key, job] : jobs_) {
    if (job.record.begin.uid != record.begin.uid || job.record.hold.since == 0) continue;
    const bool is_late = job.measures > 0 || (job.measure_since != 0 &&
                                              now >= job.measure_since + k_first_measure_pause_s);
    held.push_back({key, job.record.hold.bytes, !job.record.hold.is_measured && is_late});
  }
  return outputs_refusal(held, record.begin.node, at_.config.hold);
}

std::vector<HeldRow> Jobs::held(std::uint32_t uid) const {
  std::vector<HeldRow> rows;
  for (const auto& [key, job] : jobs_) {
    const JobRecord& record = job.record;
    const HoldRecord& hold = record.hold;
    if (hold.since == 0 || (uid != 0 && uid != record.begin.uid)) continue;
    rows.push_back({key.job, key.restart, record.begin.uid, record.begin.node, hold.since,
                    hold_times(hold, at_.config.hold).expire,
                    record.state == JobState::staging_out ? epoch_now() : hold.retry_at,
                    hold.is_measured, hold.bytes, files_.kept_in(record), hold.reasons});
  }
  return rows;
}

}  // namespace nodestage
