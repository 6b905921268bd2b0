// Finds the nodes of a job, and asks them for `nodestage report`. Pure, except for find_nodes_of()
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
  std::optional<std::uint32_t> uid = {};  // the owner of a running job
};

// Parses the job's line of "JOBID|STATE|COUNT|LIST[|UID]"; nullopt if the job has no nodes.
std::optional<JobNodes> parse_job_nodes(const std::string& lines, std::uint32_t job);

// Returns an srun command with one task per node that prints what the node's daemon knows: a step
// of the job while it runs, else a new job.
std::vector<std::string> srun_words(const JobNodes& nodes, const std::string& job,
                                    const std::string& socket);

// Returns this process's environment, without the variables of an outer job that would affect srun.
std::vector<std::string> environment_outside_of_jobs();

// Asks squeue or, once Slurm has forgotten the job, sacct (if there is accounting).
std::optional<JobNodes> find_nodes_of(std::uint32_t job);

// Asks with srun, whose messages go to stderr; waits for at most about two minutes. Root asks a
// running job's nodes as the job's user.
Result<std::vector<NodeReport>> ask_nodes(const JobNodes& nodes, const std::string& job,
                                          const std::string& socket);

}  // namespace nodestage
