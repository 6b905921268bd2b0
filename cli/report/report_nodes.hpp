// Where a job ran, and how `nodestage report` asks there. Pure, but for find_nodes_of()
// and ask_nodes().
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/result.hpp"
#include "common/wire/node_report.hpp"

namespace nodestage {

struct JobNodes {
  std::string list;         // as Slurm writes it: "n[1-3],m1"
  std::uint32_t count = 0;  // 0: not known
  bool is_running = false;
  std::optional<std::uint32_t> uid = {};  // whose a running job is
};

// Of lines "JOBID|STATE|COUNT|LIST[|UID]", that of the job, if it has nodes.
std::optional<JobNodes> parse_job_nodes(const std::string& lines, std::uint32_t job);

// A task on each node that prints what its daemon knows: a step of the job while it runs, else a
// job of its own.
std::vector<std::string> srun_words(const JobNodes& nodes, const std::string& job,
                                    const std::string& socket);

// This process's, but for what a job that it is in would tell srun.
std::vector<std::string> environment_outside_of_jobs();

// By squeue, and once that has forgotten the job by sacct, where there is accounting.
std::optional<JobNodes> find_nodes_of(std::uint32_t job);

// By srun, whose complaints go to stderr; waits at most about two minutes. Root asks a running
// job's nodes as its user.
Result<std::vector<NodeReport>> ask_nodes(const JobNodes& nodes, const std::string& job,
                                          const std::string& socket);

}  // namespace nodestage
