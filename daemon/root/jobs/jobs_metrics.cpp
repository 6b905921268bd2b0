// What is counted of the jobs (metrics.hpp).
#include <sys/statvfs.h>

#include "daemon/root/jobs/jobs.hpp"

namespace nodestage {

// Before the job's state becomes `next`.
void Jobs::count_time(Job& job, JobState next) {
  const auto now = Clock::now();
  if (job.since && next == job.record.state) return;
  if (job.since) counters_.add_time(job.record.state, now - *job.since);
  job.since = now;
}

// While a worker works, and at its end.
void Jobs::count_work(Job& job) {
  const bool out = job.record.state == JobState::staging_out;
  const WorkerTask task = out ? WorkerTask::stage_out : WorkerTask::stage;
  counters_.add_work(out ? Activity::stage_out : Activity::stage, work_of(worker_status(job, task)),
                     job.counted);
}

Metrics Jobs::metrics() {
  Metrics metrics;
  for (auto& [key, job] : jobs_) {
    const JobRecord& record = job.record;
    if (job.worker) count_work(job);
    ++metrics.jobs[static_cast<std::size_t>(record.state)];
    metrics.promised_bytes += desk_.promised_to(key).bytes;
    if (record.hold.since == 0) continue;
    ++metrics.held_results;
    metrics.held_bytes += record.hold.bytes;
  }
  metrics.counters = counters_;
  metrics.trash_trees = at_.areas.list_trash().size();
  struct statvfs disk {};
  if (::statvfs(tmpdir_root(at_.config).c_str(), &disk) == 0) {
    metrics.free_bytes = disk.f_bavail * disk.f_frsize;
    metrics.free_inodes = disk.f_favail;
    metrics.size_bytes = disk.f_blocks * disk.f_frsize;
  }
  return metrics;
}

}  // namespace nodestage
