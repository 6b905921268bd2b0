// JobOutput: lines in a job's standard output that say what became of its results.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/settings/config.hpp"
#include "daemon/root/basis/job.hpp"
#include "daemon/root/basis/log.hpp"
#include "daemon/root/slurm/scontrol.hpp"
#include "daemon/root/table/job_table.hpp"
#include "daemon/root/tasks/job_workers.hpp"
#include "daemon/root/workers/workers.hpp"

namespace nodestage {

// Notices: messages to users in a file beside their job's output, and lines in that output, written
// by workers with the user's rights, one at a time for each user, since a target may hang.
class Notices {
 public:
  enum class Written { yes, no };
  using OnWritten = std::function<void(Written)>;

  Notices(Workers& workers, const Config& config) : workers_(workers), config_(config) {}

  // Has a worker write. `start` is a `notice` or `append` order with the text as its request. A
  // later notice of the same run replaces one that still waits. `on_written` is called once: when
  // it is replaced or its worker could not be started (from within write()), or when that has
  // exited. A fault is logged; no try follows.
  void write(WorkerStart start, Subject subject, OnWritten on_written);

 private:
  struct Notice {
    WorkerStart start;
    Subject subject;
    OnWritten on_written;
  };
  void start_next(std::uint32_t uid);
  Result<Workers::Id> start(const Notice& notice);

  Workers& workers_;
  const Config& config_;
  std::map<std::uint32_t, std::deque<Notice>> waiting_;  // by uid
  std::set<std::uint32_t> at_work_;
  std::uint64_t next_ = 1;
};

class JobOutput {
 public:
  JobOutput(const JobTable& table, const JobWorkers& workers, Notices& notices,
            JobQuestions& questions, const Config& config)
      : table_(table),
        workers_(workers),
        notices_(notices),
        questions_(questions),
        config_(config) {}

  // Has a worker append "nodestage: NODE: LINE" for each of `lines`, which are printable and of one
  // line. `on_done` is called once: when that worker has exited, or at once where there is nothing
  // to say or no file for it. Call it only for a job that has ended here. Slurm does not append, so
  // a batch script that still writes would write over the lines: nothing is appended then. In a
  // heterogeneous job the script of the first component runs for all: while it may write, what a
  // later component has to say goes where LinesTo::file does.
  void append(
      const JobRecord& record, const std::vector<std::string>& lines,
      const std::function<void()>& on_done = [] {}) const;

 private:
  [[nodiscard]] bool has_later_run(const JobRecord& record) const;
  [[nodiscard]] bool can_take_lines(const JobRecord& record) const;
  void append_to_first(std::uint32_t first_job, const WorkerStart& start, const Subject& subject,
                       const std::function<void()>& on_done) const;

  const JobTable& table_;
  const JobWorkers& workers_;
  Notices& notices_;
  JobQuestions& questions_;
  const Config& config_;
};

}  // namespace nodestage
