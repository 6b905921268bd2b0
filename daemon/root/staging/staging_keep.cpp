// Staging: what the keeper stages for a job that has a place.
#include "daemon/root/staging/staging.hpp"

namespace nodestage {

bool Staging::keep_next(JobRecord& record) {
  while (const SharedItem* next = sharing_.next_to_keep(record)) {
    const Status started = start_keep(record, *next);
    if (started) return true;
    sharing_.kept(record, {}, started.error().what);
    at_.table.save(record);
  }
  return false;
}

Status Staging::start_keep(JobRecord& record, const SharedItem& shared) {
  const CacheEntry* reserved = sharing_.reserved_for(record, shared);
  if (reserved == nullptr) return Error{ENOENT, "its entry was given up"};
  TRY_ASSIGN(const Fd directory, at_.files.directory(record));
  const CacheEntry entry = *reserved;
  Status started = keeping_.keep(
      record, shared, entry, directory.get(),
      [this, entry](const JobKey& key, const WorkerEnd& end) { keep_ended(key, entry, end); });
  if (!started) at_.cache.remove_work(entry);
  return started;
}

// The job may have ended meanwhile.
void Staging::keep_ended(const JobKey& key, const CacheEntry& entry, const WorkerEnd& end) {
  static_cast<void>(at_.desk.close(key));
  JobRecord* record = at_.table.find(key);
  const bool goes_on = record != nullptr && record->state == JobState::queued && !record->ended;
  if (goes_on) {
    const WorkerStatus status = at_.files.status(key, WorkerTask::keep);
    const bool says_why = status.phase == WorkerPhase::done || status.phase == WorkerPhase::failed;
    sharing_.kept(*record, status, says_why ? "" : "the process " + end.text);
    at_.table.save(*record);
  }
  at_.cache.remove_work(entry);
  if (goes_on) return at_.events.done(key, Fact::turn);
  queue_.leave_place(key);
  queue_.go_on();
}

}  // namespace nodestage
