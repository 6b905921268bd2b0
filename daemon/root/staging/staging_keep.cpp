// Staging: what the keeper stages for a job that has a place, for all who may read it.
#include "daemon/root/staging/staging.hpp"

namespace nodestage {

void Staging::keep_next(JobRecord& record) {
  const KeepItems items = sharing_.next_to_keep(record);
  if (items.empty()) return;  // others stage them, or have
  const Status started = start_keep(record, items);
  if (started) return queue_.take_place(record.key(), record.begin.uid);
  at_.cache.remove_work(items.front().entry);
  sharing_.kept(record, items, {}, "did not start: " + started.error().what);
}

Status Staging::start_keep(JobRecord& record, const KeepItems& items) {
  TRY_ASSIGN(const Fd directory, at_.files.directory(record));
  return keeping_.keep(
      record, items, directory.get(),
      [this, items](const JobKey& key, const WorkerEnd& end) { keep_ended(key, items, end); });
}

// The job may have ended meanwhile. The place goes to whose turn it is: there are others' items
// between this job's.
void Staging::keep_ended(const JobKey& key, const KeepItems& items, const WorkerEnd& end) {
  static_cast<void>(at_.desk.close(key));
  queue_.leave_place(key);
  const JobRecord* record = at_.table.find(key);
  if (record != nullptr && record->state == JobState::queued && !record->ended)
    sharing_.kept(*record, items, at_.files.status(key, WorkerTask::keep), end.text);
  at_.cache.remove_work(items.front().entry);
  queue_.go_on();
}

}  // namespace nodestage
