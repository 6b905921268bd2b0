// Carrying on with the jobs of an earlier daemon, from the journal.
#include "daemon/root/basis/log.hpp"
#include "daemon/root/jobs/jobs.hpp"

namespace nodestage {
namespace {

WorkerTask task_of(JobState state) {
  return state == JobState::staging_out ? WorkerTask::stage_out : WorkerTask::stage;
}

}  // namespace

void Jobs::recover() {
  const std::vector<JobKey> keys = table_.load();
  // First all workers that live, so that what is started next knows of every place that is taken.
  for (const JobKey& key : keys) take_over(*table_.find(key));
  for (const JobKey& key : keys) carry_on(*find(key));
  at_.workers.kill_strangers();
  start_queued();
  at_.trash.sweep();
  orphans_.check();
  orphans_.watch();
}

void Jobs::take_over(JobRecord& record) {
  const JobKey key = record.key();
  Job& job = jobs_.emplace(key, Job(record)).first->second;
  log::info(about(record), "carried on from the journal: {}", to_text(record.state));
  // The last daemon may have ended between the move to the hold area and its note of it.
  const auto unmoved =
      at_.areas.open_directory(record.directory, record.begin.uid, mounts_of(record));
  const auto moved = at_.areas.open_held(key, record.begin.uid);
  if (unmoved && !*unmoved && moved && *moved) record.in_hold = true;
  orphans_.check_old(record);
  adopt_worker(job, task_of(record.state));
}

void Jobs::carry_on(Job& job) {
  const WorkerPhase phase = worker_status(job, task_of(job.record.state)).phase;
  join(job);
  go_on(job, phase == WorkerPhase::done || phase == WorkerPhase::failed ? WorkersWord::last
                                                                        : WorkersWord::open);
}

void Jobs::go_on(Job& job, WorkersWord word) {
  const JobKey key = job.record.key();
  const bool still_staging = job.record.state == JobState::waiting_for_directory ||
                             job.record.state == JobState::queued ||
                             job.record.state == JobState::staging;
  // Its end was as far as the daemon came.
  if (job.record.ended && still_staging) return stop_staging(job);
  switch (job.record.state) {
    case JobState::waiting_for_directory:
      if (const Status made = make_directory(job.record); made)
        set_out(job);
      else
        fail(job, FailureCause::directory, made.error().what);
      break;
    case JobState::queued:
      enqueue(job);
      break;
    case JobState::staging:
      if (job.worker) break;
      word == WorkersWord::last ? staging_ended(key, {}) : enqueue(job);
      break;
    case JobState::stopping:
      job.worker ? at_.workers.kill(*job.worker) : begin_stage_out(job);
      break;
    case JobState::awaiting_outcome:
      begin_stage_out(job);
      break;
    case JobState::staging_out:
      if (job.worker && job.record.hold.since != 0) retries_.take(job.record.begin.uid, key);
      if (job.worker) break;
      word == WorkersWord::last ? stage_out_ended(key, {}) : begin_stage_out(job);
      break;
    case JobState::ready:
      credits_.carry_on(key);
      [[fallthrough]];
    case JobState::failed:
      if (job.record.ended) stop_staging(job);
      break;
    case JobState::held:
      move_to_hold(job);  // if that has failed before: outside the hold area it would be lost here
      look_after(job);
      break;
    case JobState::gone:
      finish(job);
      break;
  }
}

}  // namespace nodestage
