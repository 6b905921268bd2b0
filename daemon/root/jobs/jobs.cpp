#include "daemon/root/jobs/jobs.hpp"

#include <algorithm>
#include <utility>

#include "common/os/wall_clock.hpp"
#include "common/talk/summary.hpp"
#include "common/text/human.hpp"
#include "common/text/name_pattern.hpp"
#include "common/wire/request_limits.hpp"
#include "daemon/root/basis/log.hpp"
#include "daemon/root/jobs/hold.hpp"

namespace nodestage {
namespace {

// The caller's word: longer than any file name, and short enough for the worker's order.
constexpr std::size_t k_max_job_name = 1024;
constexpr unsigned k_refusal_tries = 5;
constexpr std::chrono::milliseconds k_status_age{200};
constexpr std::uint32_t k_batch_step = 0xfffffffb;  // SLURM_BATCH_SCRIPT of slurm.h

}  // namespace

Jobs::Jobs(const Places& places) : at_(places) {}

void Jobs::settings_changed() {
  start_queued();
  at_.records.trim();
  for (auto& item : jobs_) set_hold_timer(item.second);
  orphans_.watch();
}

Jobs::Job* Jobs::find(const JobKey& key) {
  const auto found = jobs_.find(key);
  return found == jobs_.end() ? nullptr : &found->second;
}

Jobs::Job* Jobs::find_live(std::uint32_t job) {
  const JobRecord* record = table_.find_live(job);
  return record == nullptr ? nullptr : find(record->key());
}

std::optional<std::uint32_t> Jobs::owner(std::uint32_t job) const {
  const JobRecord* record = table_.find_live(job);
  if (record == nullptr) return {};
  return record->begin.uid;
}

void Jobs::set_state(Job& job, JobState state) {
  count_time(job, state);
  table_.set_state(job.record, state);
  // From here on a step may run at any time, or somebody who is in the job by other means. With
  // several nodes, when all are ready: decide().
  const bool alone = !is_shared(job.record) || at_.peers.off();
  if (state == JobState::ready && alone) may_run(job);
  save(job);
  // The next daemon would stage again what the job works on by then.
  if (const auto why = table_.unsaved(job.record.key()); state == JobState::ready && why)
    return fail(job, FailureCause::journal,
                "nodestaged cannot note that the data are ready: its journal on this node "
                "cannot be written: " +
                    *why + "\nTell your administrators.");
  if (state == JobState::ready || state == JobState::failed) own_state_changed(job);
}

// Before the record is saved. Nothing is owed to a job that ran while it was staged
// (--stage-wait=none).
void Jobs::may_run(Job& job) {
  if (!std::exchange(job.record.may_have_run, true)) credits_.owe(job.record);
}

Result<JobRecord> Jobs::new_record(const Begin& begin) const {
  if (begin.uid == 0 || begin.gid == 0) {
    return Error{EPERM, "nodestage does not stage for root; submit as an ordinary user"};
  }
  if (begin.user.empty() || begin.user.find('/') != std::string::npos) {
    return Error{EINVAL, "slurmd named no user"};
  }
  if (begin.request.size() > k_max_request_bytes) {
    return Error{E2BIG,
                 "the request is larger than " + std::to_string(k_max_request_bytes) + " bytes"};
  }
  PatternFacts facts;
  facts.job = begin.job;
  facts.restart = begin.restart;
  facts.user = begin.user;
  JobRecord record;
  record.begin = begin;
  record.begun_at = epoch_now();
  record.times.begun = wall_ms();
  TRY_ASSIGN(record.directory, expand_pattern(tmpdir_name_pattern(at_.config), facts));
  // A list without this node is none.
  auto& nodes = record.begin.nodes;
  if (is_on_first_node(record) && std::find(nodes.begin(), nodes.end(), begin.node) == nodes.end())
    record.begin.first_node.clear();
  record.directory_is_ours = at_.config.tmpdir.create != CreateDirectory::never;
  return record;
}

Message Jobs::begin(const Begin& begin) {
  const bool known = find({begin.job, begin.restart}) != nullptr;
  Message answer = admit(begin);
  if (const auto* refused = std::get_if<Refused>(&answer); refused != nullptr && !known) {
    counters_.add_failure(Activity::stage, FailureCause::refused);
    log::warn(about(begin), "refused: {}", refused->what);
    tell_refusal(begin, refused->what, k_refusal_tries);
  }
  return answer;
}

Message Jobs::admit(const Begin& begin) {
  const JobKey key{begin.job, begin.restart};
  if (const Job* known = find(key)) {
    if (known->record.begin.uid == begin.uid && is_live(known->record)) return Accepted{};
    return Refused{RefusalReason::busy, "this run of the job is already known on the node"};
  }
  // A requeued job: Slurm lets every epilog end before the next prolog, so an earlier run that is
  // still here has lost its epilog. Its results are delivered beside the new run.
  while (Job* earlier = find_live(begin.job)) {
    log::warn(about(earlier->record), "a new run begins, but no epilog came");
    earlier->record.ended = true;
    move_to_hold(*earlier);
    if (!earlier->record.in_hold)
      return Refused{RefusalReason::busy, "an earlier run of the job is still here"};
    stop_staging(*earlier);
  }
  auto record = new_record(begin);
  if (!record) return Refused{RefusalReason::fault, record.error().what};
  // What of an earlier run could not be moved to the hold area would go the way of this run's
  // directory.
  for (auto& item : jobs_) {
    Job& other = item.second;
    if (other.record.in_hold || other.record.directory != record->directory) continue;
    move_to_hold(other);
    if (!other.record.in_hold)
      return Refused{RefusalReason::busy, "results of an earlier run of the job are still here"};
  }
  // The journal first: of what it does not know the next daemon would leave the directory.
  record->state = JobState::waiting_for_directory;
  const auto added = table_.add(std::move(*record));
  if (!added) return Refused{RefusalReason::fault, added.error().what};
  if (const Status made = make_directory(**added); !made) {
    table_.forget(key);
    return Refused{RefusalReason::fault, made.error().what};
  }
  Job& job = jobs_.emplace(key, Job(**added)).first->second;
  join(job);
  set_out(job);
  return Accepted{};
}

void Jobs::set_out(Job& job) {
  if (job.record.directory_is_ours) return enqueue(job);
  set_state(job, JobState::waiting_for_directory);
  seek_directory(job.record.key(), Clock::now() + std::chrono::seconds(at_.config.tmpdir.wait_s));
}

Status Jobs::make_directory(const JobRecord& record) const {
  if (!record.directory_is_ours) return {};
  Status made = at_.areas.make_directory(record.directory, record.begin.uid, record.begin.gid);
  if (made) return made;
  return Error{made.error().code, "the job directory cannot be made: " + made.error().what};
}

Message Jobs::exited(const Exited& exited) {
  Job* job = find_live(exited.job);
  if (job == nullptr)
    return Refused{RefusalReason::unknown_job, "the job is not known on this node"};
  const bool batch = exited.step == k_batch_step;
  if (batch && job->record.batch_status) return Accepted{};  // it ends once
  if (batch) job->record.facts.batch = true;
  auto& status = batch ? job->record.batch_status : job->record.last_status;
  // A step did as its worst task. Many tasks that end alike are one write of the journal.
  const bool same_step = exited.step == std::exchange(job->record.last_step, exited.step);
  if (same_step && status.value_or(0) != 0) return Accepted{};
  if (status == exited.wait_status && (same_step || exited.wait_status == 0)) return Accepted{};
  status = exited.wait_status;
  save(*job);
  if (batch) tell_outcome(*job);
  return Accepted{};
}

void Jobs::learn(Job& job, const Wait& wait) {
  JobFacts facts = job.record.facts;
  if (!facts.known) {
    facts = {true, wait.array_job, wait.array_task, wait.job_name.substr(0, k_max_job_name),
             facts.batch};
  }
  if (wait.step == k_batch_step) facts.batch = true;
  if (facts == job.record.facts) return;
  job.record.facts = std::move(facts);
  save(job);
}

void Jobs::leave(Ticket ticket) {
  leave_recovery(ticket);
  for (auto& [key, job] : jobs_) {
    if (const auto waiter = job.waiters.find(ticket); waiter != job.waiters.end()) {
      at_.loop.cancel(waiter->second.timer);
      job.waiters.erase(waiter);
      return;
    }
    if (const auto ender = job.enders.find(ticket); ender != job.enders.end()) {
      at_.loop.cancel(ender->second.timer);
      job.enders.erase(ender);
      return;
    }
  }
}

// Whoever asks in a loop has each status file read once in a while, not each time.
const std::vector<StatusItem>& Jobs::items_of(Job& job, WorkerTask task) const {
  const auto now = Clock::now();
  if (job.seen.task != task || now - job.seen.at >= k_status_age)
    job.seen = {now, task, status_items(worker_status(job, task), task)};
  return job.seen.items;
}

std::vector<JobStatus> Jobs::status(std::uint32_t wanted, std::uint32_t uid) {
  std::vector<JobStatus> found;
  for (auto& [key, job] : jobs_) {
    const JobRecord& record = job.record;
    if ((wanted != 0 && wanted != key.job) || (uid != 0 && uid != record.begin.uid)) continue;
    const bool is_out = record.state == JobState::staging_out || record.state == JobState::held;
    const WorkerTask task = is_out ? WorkerTask::stage_out : WorkerTask::stage;
    JobStatus& status = found.emplace_back();
    status.items = items_of(job, task);
    // Nobody works on them any more.
    for (StatusItem& item : status.items) {
      if (record.state == JobState::failed && item.state == ItemState::working)
        item.state = ItemState::failed;
    }
    StatusRow& row = status.row;
    row.job = key.job;
    row.restart = key.restart;
    row.uid = record.begin.uid;
    row.user = printable(record.begin.user);
    row.node = printable(record.begin.node);
    row.state = to_text(record.state);
    row.begun_at = record.begun_at;
    const bool others_failed = record.cause.empty() && record.verdict == Verdict::failed;
    row.cause = others_failed ? record.verdict_text : record.cause;
    if (job.talk.barrier) row.others = job.talk.barrier->text();
    if (record.in_hold) row.kept_in = at_.areas.held_path(key);
  }
  return found;
}

}  // namespace nodestage
