// From the end of the job to no trace of it.

#include <algorithm>
#include <filesystem>

#include "common/os/wall_clock.hpp"
#include "common/talk/summary.hpp"
#include "common/text/human.hpp"
#include "daemon/root/basis/log.hpp"
#include "daemon/root/jobs/hold.hpp"
#include "daemon/root/jobs/jobs.hpp"

namespace nodestage {
namespace {

bool is_empty(int directory_fd) {
  std::error_code fault;
  return std::filesystem::is_empty("/proc/self/fd/" + std::to_string(directory_fd), fault) &&
         !fault;
}

}  // namespace

Ticket Jobs::end(const End& end, const Reply& reply) {
  Job* job = find_live(end.job);
  // Where slurmctld requeues a job as it ends, it counts before it makes the epilog's credential:
  // so the end of run 0 may come as that of run 1.
  if (job != nullptr && end.restart < job->record.begin.restart) {
    log::warn(about(job->record), "the end of run {} of the job has come late; run {} goes on",
              end.restart, job->record.begin.restart);
    job = nullptr;
  }
  if (job == nullptr) {
    reply(Ended{EndOutcome::nothing, ""});
    return 0;
  }
  const JobKey key = job->record.key();
  const Ticket ticket = next_ticket_++;
  std::uint64_t wait_s = at_.config.stageout.epilog_wait_s;
  if (end.limit_s != 0) wait_s = std::min<std::uint64_t>(wait_s, end.limit_s);
  const auto timer = at_.loop.after(std::chrono::seconds(wait_s), [this, key] {
    if (Job* late = find(key)) go_on_in_background(*late);
  });
  job->enders.emplace(ticket, Ender{reply, timer});
  if (!job->record.ended) {
    job->record.ended = true;
    job->record.exit_code = end.exit_code;
    save(*job);
    tell_outcome(*job);
    stop_staging(*job);
  }
  job = find(key);
  return job != nullptr && job->enders.count(ticket) > 0 ? ticket : 0;
}

void Jobs::orphan_found(const JobKey& key) {
  Job& job = *find(key);
  tell_outcome(job);
  stop_staging(job);
}

// Whatever the staging is at, it ends here; the results come next.
void Jobs::stop_staging(Job& job) {
  queue_.erase(job.record.key());
  if (job.record.times.ended == 0) job.record.times.ended = wall_ms();
  if (job.record.cause.empty()) job.record.cause = "the job has ended";
  const bool waited_for = !job.waiters.empty();
  if (job.worker && job.record.state != JobState::staging_out) {
    set_state(job, JobState::stopping);
    at_.workers.kill(*job.worker);
  } else if (!job.worker) {
    begin_stage_out(job);
    return;  // the job may be gone by now
  }
  if (waited_for) tell_waiters(job);
}

void Jobs::begin_stage_out(Job& job) {
  job.record.cause.clear();
  if (job.record.begin.request.empty()) return finish(job);
  // No step is known to have run, but one that was to wait for nothing may not have reached this
  // daemon or the last one. The worker looks for what it has made.
  if (!job.record.may_have_run) {
    const auto tree = files_.directory(job.record);
    // EPERM: not yet given to the user, as a daemon left it that died while it made it.
    if (tree ? is_empty(tree->get()) : tree.error().code == ENOENT || tree.error().code == EPERM)
      return finish(job);
  }
  if (lacks_outcome(job)) return await_outcome(job);
  start_stage_out(job);
}

void Jobs::start_stage_out(Job& job) {
  ++job.record.stage_outs;
  if (const Status started = start_worker(job, WorkerTask::stage_out); !started) {
    counters_.add_failure(Activity::stage_out, FailureCause::start);
    return hold(job, "the stage-out could not be started: " + started.error().what);
  }
  set_state(job, JobState::staging_out);
}

void Jobs::stage_out_ended(const JobKey& key, const WorkerEnd& end) {
  Job* job = find(key);
  if (job == nullptr) return;
  count_work(*job);
  job->worker.reset();
  job->record.worker = {};
  retries_.end(job->record.begin.uid, key);
  job->record.times.out_end = wall_ms();
  const WorkerStatus status = worker_status(*job, WorkerTask::stage_out);
  log_items(job->record, "stage-out: ", status, delivery_lines(status));
  if (status.phase == WorkerPhase::done) {
    if (job->record.hold.since == 0) {
      const std::string missing = missing_notice(job->record, status);
      if (!missing.empty()) tell_user(*job, missing, [](Notices::Told) {});
      return finish(*job);
    }
    return let_go(*job, delivered_notice(job->record));
  }
  counters_.add_failure(Activity::stage_out, cause_of(end, status));
  hold(*job,
       status.phase == WorkerPhase::failed ? status.cause : "the stage-out process " + end.text);
}

// The epilog can wait no longer. The tree leaves its name, so that nothing of the job is left
// there; where it cannot, since the site has mounted it there, nobody of ours stays in it.
void Jobs::go_on_in_background(Job& job) {
  if (job.is_leaving) return answer_enders(job, {EndOutcome::lost, job.record.cause});
  move_to_hold(job);
  if (!job.record.in_hold && !job.record.directory_is_ours) {
    log::warn(about(job.record),
              "the epilog can wait no longer, and the site unmounts the directory");
    return job.worker ? at_.workers.kill(*job.worker)
                      : hold(job, "the job's end had to be waited for too long");
  }
  log::warn(about(job.record), "the epilog returns before its end; {} goes on in the background",
            to_text(job.record.state));
  answer_enders(job,
                {EndOutcome::background, "results are still being copied and will be delivered"});
}

void Jobs::move_to_hold(Job& job) {
  if (job.record.in_hold) return;
  const Status moved = at_.areas.move_to_hold(job.record.directory, job.record.key());
  if (!moved) {
    log::error(about(job.record), "cannot be moved to the hold area: {}", moved.error().what);
    const auto tree =
        at_.areas.open_directory(job.record.directory, job.record.begin.uid, mounts_of(job.record));
    if (!tree || *tree) return;  // else there is nothing to keep, or the last daemon has moved it
  }
  job.record.in_hold = true;
  save(job);
}

void Jobs::hold(Job& job, const std::string& cause) {
  move_to_hold(job);
  job.record.cause = printable(cause, Newlines::keep);
  if (!job.record.in_hold && !job.record.directory_is_ours) return lose(job, cause);
  const bool is_new = job.record.hold.since == 0;
  log::write(
      is_new ? log::Level::err : log::Level::warn, about(job.record),
      "the stage-out failed and the data are kept in " + files_.kept_in(job.record) + ": " + cause);
  note_failure(job);
  set_state(job, JobState::held);
  answer_enders(job, {EndOutcome::held, job.record.cause});
  tell_waiters(job);
  look_after(job);
}

// The directory is the site's, and can be moved to no place where it would stay. What a worker's
// cause says after its first line is how to fetch what is kept.
void Jobs::lose(Job& job, const std::string& cause) {
  job.record.cause = printable(cause.substr(0, cause.find('\n')));
  log::error(about(job.record),
             "the stage-out failed, and the data cannot be kept since the site has mounted {}: {}",
             at_.areas.path_of(job.record.directory), job.record.cause);
  job.record.hold.reasons = reasons_of(worker_status(job, WorkerTask::stage_out), job.record.cause);
  job.parting = "the results could not be delivered, and were lost with the site's directory";
  answer_enders(job, {EndOutcome::lost, job.record.cause});
  tell_waiters(job);
  let_go(job, lost_notice(job.record));
}

void Jobs::finish(Job& job) {
  const JobRecord& record = job.record;
  const JobKey key = record.key();
  Status moved;
  if (record.in_hold) {
    moved = at_.areas.move_held_to_trash(key, record.begin.uid, record.begin.gid);
  } else if (record.directory_is_ours) {
    moved = at_.areas.move_to_trash(record.directory, record.begin.uid, record.begin.gid);
  }
  if (!moved) log::error(about(record), "cannot be removed: {}", moved.error().what);
  set_state(job, JobState::gone);
  answer_enders(job, {EndOutcome::done, ""});
  tell_waiters(job);
  answer_recovery(job, Recovered{{"nothing is held any more: it was delivered meanwhile"}});
  keep_report(job);
  if (!moved) return start_queued();  // the next daemon tries again, so the journal keeps it
  keep_outcome(job);
  at_.areas.remove_status(key);
  credits_.forget(key);
  jobs_.erase(key);
  table_.forget(key);
  at_.trash.sweep();
  start_queued();
}

void Jobs::answer_enders(Job& job, const Ended& ended) {
  const auto enders = std::exchange(job.enders, {});
  for (const auto& [ticket, ender] : enders) {
    at_.loop.cancel(ender.timer);
    ender.reply(ended);
  }
}

}  // namespace nodestage
