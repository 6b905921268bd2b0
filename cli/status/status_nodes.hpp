// Asks the nodes of a running job by steps of the job: one srun per node, which runs
// `nodestage status --here` there.
#pragma once

#include <string>

#include "cli/base/programs.hpp"
#include "cli/base/slurm_job.hpp"
#include "cli/status/status_report.hpp"

namespace nodestage {

// Runs as this process's user or, for root, as the job's user. An srun is killed after
// k_program_limit, and its node is then among the faults. Jobs and faults are empty if no node
// knows the job. Fails if Slurm or the user's account cannot be asked.
Result<StatusReport> ask_nodes(const SlurmJob& job, const std::string& socket);

// Returns the environment of a step that only observes a job. It contains nothing of this process's
// environment, since the step's processes belong to the job's user, who can read it, and since
// another job's SLURM_ variables would affect srun.
std::vector<std::string> step_environment();

// step_on() returns the srun for one node; the other reads its output. The job's user controls that
// output, so only what it says about this job is used.
Program step_on(const std::string& node, const SlurmJob& job, const std::string& socket);
void add_answer(StatusReport& report, const std::string& node, const SlurmJob& job,
                const ProgramEnd& end);

}  // namespace nodestage
