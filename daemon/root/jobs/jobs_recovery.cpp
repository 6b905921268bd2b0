// Jobs: carrying on with the jobs of an earlier daemon, from the journal.
#include <algorithm>

#include "daemon/root/basis/log.hpp"
#include "daemon/root/jobs/jobs.hpp"

namespace nodestage {
namespace {

WorkerTask task_of(JobState state) {
  return state == JobState::staging_out ? WorkerTask::stage_out : WorkerTask::stage;
}

}  // namespace

void Jobs::recover() {
  table_.on_change([this] { power_.look(); });
  power_.look();
  const std::vector<JobKey> keys = table_.load();
  cache_.load();
  // First all workers that live, so that every place that is taken is known before the next start.
  for (const JobKey& key : keys) take_over(*table_.find(key));
  for (const JobKey& key : keys) carry_on(*table_.find(key));
  // Removers and comparisons of the last daemon, too, before the same are started.
  at_.workers.kill_strangers();
  cache_.loaded();
  staging_.start_queued();
  at_.trash.sweep();
  orphans_.check();
  orphans_.watch();
}

// Whether the name of the job's directory is that of a later run by now (make_way()).
bool Jobs::is_given_on(const JobRecord& record) const {
  const auto& all = table_.all();
  return std::any_of(all.upper_bound(record.key()), all.end(), [&record](const auto& item) {
    return item.second.directory == record.directory;
  });
}

void Jobs::take_over(JobRecord& record) {
  log::info(about(record), "carried on from the journal: {}", to_text(record.state));
  // The last daemon may have died between the move to the hold area and its note of it. After a
  // power loss the note can be there and the move not.
  const auto unmoved =
      at_.areas.open_directory(record.directory, record.begin.uid, mounts_of(record));
  const auto moved = at_.areas.open_held(record.key(), record.begin.uid);
  const bool is_known = unmoved && moved;
  if (is_known && *moved && !*unmoved) record.in_hold = true;
  if (is_known && *unmoved && !*moved && !is_given_on(record)) record.in_hold = false;
  orphans_.check_old(record);
  staging_.carry_on(record);
  if (task_of(record.state) == WorkerTask::stage)
    staging_.adopt(record);
  else
    ending_.adopt(record);
  pushes_.adopt(record);
  relays_.adopt(record);
}

void Jobs::carry_on(JobRecord& record) {
  const WorkerPhase phase = files_.status(record.key(), task_of(record.state)).phase;
  talk_.join(record);
  credits_.carry_on(record);
  go_on(record, phase == WorkerPhase::done || phase == WorkerPhase::failed ? WorkersWord::last
                                                                           : WorkersWord::open);
}

void Jobs::go_on(JobRecord& record, WorkersWord word) {
  switch (record.state) {
    case JobState::waiting_for_directory:
    case JobState::queued:
    case JobState::staging:
      // The last daemon noted its end and came no further.
      return record.ended ? ending_.stop(record) : go_on_staging(record, word);
    case JobState::ready:
    case JobState::failed:
      if (record.ended) return ending_.stop(record);
      pushes_.watch(record);
      // Its worker has ended, unseen, and others would wait for what it staged for them.
      if (staging_.leads(record.key()) && !workers_.is_working(record.key(), WorkerTask::stage))
        staging_.worker_ended(record.key(), {WorkerEnd::Kind::ended, "ended"});
      return;
    case JobState::stopping:
      if (!staging_.stop(record)) ending_.stage_out(record);
      return;
    case JobState::awaiting_outcome:
      return ending_.stage_out(record);
    case JobState::staging_out:
      return go_on_staging_out(record, word);
    case JobState::held:
      // It may have failed before, and outside the hold area the results would be lost.
      ending_.move_to_hold(record);
      return held_.look_after(record);
    case JobState::gone:
      return ending_.finish(record);
  }
}

void Jobs::go_on_staging(JobRecord& record, WorkersWord word) {
  const JobKey key = record.key();
  if (workers_.is_working(key, WorkerTask::stage)) return;
  if (record.state == JobState::queued && word == WorkersWord::last)
    table_.set_state(record, JobState::staging);  // the last daemon could not note it
  if (record.state == JobState::staging && word == WorkersWord::last)
    return staging_.worker_ended(key, {});
  if (record.state != JobState::waiting_for_directory) return staging_.enqueue(record);
  const auto made = staging_.make_directory(record);
  if (!made) return staging_.fail(record, FailureCause::directory, made.error().what);
  staging_.set_out(record);
}

void Jobs::go_on_staging_out(JobRecord& record, WorkersWord word) {
  const JobKey key = record.key();
  if (!workers_.is_working(key, WorkerTask::stage_out))
    return word == WorkersWord::last ? ending_.worker_ended(key, {}) : ending_.stage_out(record);
  if (record.hold.since != 0) held_.carry_on_try(record);
}

}  // namespace nodestage
