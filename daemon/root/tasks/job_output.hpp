// JobOutput: lines in a job's standard output that say what became of its results.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/settings/config.hpp"
#include "daemon/root/basis/job.hpp"
#include "daemon/root/table/job_table.hpp"
#include "daemon/root/tasks/job_workers.hpp"
#include "daemon/root/tasks/notices.hpp"

namespace nodestage {

class JobOutput {
 public:
  JobOutput(const JobTable& table, const JobWorkers& workers, Notices& notices,
            const Config& config)
      : table_(table), workers_(workers), notices_(notices), config_(config) {}

  // Has a worker append "nodestage: NODE: LINE" for each of `lines`, which are printable and of one
  // line. `on_done` is called once: when that worker has exited, or at once where there is nothing
  // to say or no file for it. Call it only for a job that has ended here. Slurm does not append, so
  // a batch script that still writes would write over the lines: nothing is appended then.
  void append(
      const JobRecord& record, const std::vector<std::string>& lines,
      const std::function<void()>& on_done = [] {}) const;

 private:
  [[nodiscard]] bool can_take_lines(const JobRecord& record) const;

  const JobTable& table_;
  const JobWorkers& workers_;
  Notices& notices_;
  const Config& config_;
};

}  // namespace nodestage
