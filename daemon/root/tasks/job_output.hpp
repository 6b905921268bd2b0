// JobOutput: lines in a job's standard output that say what became of its results.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "daemon/root/basis/config.hpp"
#include "daemon/root/basis/job.hpp"
#include "daemon/root/tasks/job_workers.hpp"
#include "daemon/root/tasks/notices.hpp"

namespace nodestage {

class JobOutput {
 public:
  JobOutput(const JobWorkers& workers, Notices& notices, const Config& config)
      : workers_(workers), notices_(notices), config_(config) {}

  // Has a worker append "nodestage: NODE: LINE" for each of `lines`, which are printable and of one
  // line. `told` is called once: when that worker has exited, or at once where there is nothing to
  // say or no file for it. Only for a job that has ended: slurmstepd does not append, so a job that
  // still writes would write over the lines.
  void append(
      const JobRecord& record, const std::vector<std::string>& lines,
      const std::function<void()>& told = [] {}) const;

 private:
  const JobWorkers& workers_;
  Notices& notices_;
  const Config& config_;
};

}  // namespace nodestage
