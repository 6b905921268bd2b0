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
  const std::vector<JobKey> keys = table_.load();
  cache_.load();
  // First all workers that live, so that every place that is taken is known before the next start.
  for (const JobKey& key : keys) take_over(*table_.find(key));
  for (const JobKey& key : keys) carry_on(*table_.find(key));
  // Removers and comparisons of the last daemon, too, before the same are started.
  at_.workers.kill_strangers();
  cache_.loaded();
  remove_from_memory();
  staging_.start_queued();
  at_.trash.sweep();
  orphans_.check();
  orphans_.watch();
}

// What no job has in memory any more. A job that is stopped at this moment removes it itself.
void Jobs::remove_from_memory() {
  for (const JobKey& key : at_.areas.jobs_in_memory()) {
    const JobRecord* record = table_.find(key);
    if (record != nullptr && is_live(*record)) continue;
    if (const Status moved = at_.areas.move_memory_to_trash(key); !moved)
      log::error("job {}: what it has in memory cannot be removed: {}", to_text(key),
                 moved.error().what);
  }
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
  else if (ending_.adopt(record) && record.hold.since != 0)
    held_.carry_on_try(record);
  pushes_.adopt(record);
  relays_.adopt(record);
  // It may have failed before, and outside the hold area the results would be lost.
  if (record.state == JobState::held) ending_.move_to_hold(record);
}

Left Jobs::left_of(const JobRecord& record) const {
  const WorkerTask task = task_of(record.state);
  if (workers_.is_working(record.key(), task)) return Left::running;
  const WorkerPhase phase = files_.status(record.key(), task).phase;
  return phase == WorkerPhase::done || phase == WorkerPhase::failed ? Left::exited : Left::nothing;
}

void Jobs::carry_on(JobRecord& record) {
  const Left left = left_of(record);
  talk_.join(record);
  credits_.carry_on(record);
  done(record.key(), known_of(record, left));
}

}  // namespace nodestage
