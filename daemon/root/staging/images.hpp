// Images: the mounted images of jobs (common/wire/worker_order.hpp): where the prolog's hook mounts
// them, the worker that serves them, and what is left of them when the job has ended.
//
// The daemon has no privilege to mount or unmount. The hooks do both: that of the prolog for a job
// that begins, and those of any later prolog or epilog for what a job has left here without an
// epilog (leftovers()).
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "common/os/file.hpp"
#include "common/result.hpp"
#include "common/settings/config.hpp"
#include "daemon/root/basis/areas.hpp"
#include "daemon/root/basis/loop.hpp"
#include "daemon/root/flow/flow.hpp"
#include "daemon/root/table/job_files.hpp"
#include "daemon/root/table/job_table.hpp"
#include "daemon/root/tasks/job_workers.hpp"

namespace nodestage {

class Images {
 public:
  struct Deps {
    Loop& loop;
    const Config& config;
    const Areas& areas;
    JobTable& table;
    const JobFiles& files;
    JobWorkers& workers;
    JobEvents& events;
  };
  explicit Images(const Deps& deps) : deps_(deps) {}
  Images(const Images&) = delete;
  Images& operator=(const Images&) = delete;

  // Makes the directories on which the hook mounts the images of a job that begins. Call it before
  // the hook learns that the job has begun.
  void prepare(JobRecord& record) const;
  // Takes the descriptors of what the hook has mounted, and starts the worker that serves them once
  // the job has its directory; or the fault, with which the items fail.
  Status mounted(JobRecord& record, std::string fault, std::vector<Fd> fuse);
  // Whether it is not known yet if the job's images are mounted. Waits for that: reports `queued`.
  [[nodiscard]] static bool is_awaited(const JobRecord& record);
  void await(JobRecord& record);
  // What a worker that stages is told.
  [[nodiscard]] ImageRules rules(const JobRecord& record) const;

  // Takes over the worker of an earlier daemon.
  void adopt(JobRecord& record);
  // Ends the worker of a job that has ended, with which the kernel ends the file systems.
  void stop(JobRecord& record);
  // Removes the directories of a job that is gone.
  void forget(const JobKey& key) {
    reports_.erase(key);
    deps_.areas.remove_image_mounts(key);
  }

  // Paths below the root of what is still mounted of this job, if any, and of those that have
  // ended, at most so many.
  [[nodiscard]] std::vector<std::string> leftovers(const JobRecord* of, std::size_t most) const;
  // Removes the directories of jobs that are gone, where nothing is mounted any more.
  void remove_again() const;

 private:
  // What the hook has reported of a job that is still without its directory.
  struct Report {
    std::string fault;
    std::vector<Fd> fuse;
  };
  void take(JobRecord& record, const Report& report);
  Status start_worker(JobRecord& record, const std::vector<Fd>& fuse);
  void worker_ended(const JobKey& key, const WorkerEnd& end);
  bool take_fault(JobRecord& record);
  void decide(JobRecord& record, const std::string& fault);

  Deps deps_;
  std::map<JobKey, Report> reports_;
};

}  // namespace nodestage
