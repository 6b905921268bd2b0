// The nodes of a running job, asked by steps of it: one srun for each node, which runs
// `nodestage status --here` there.
#pragma once

#include <string>

#include "cli/base/programs.hpp"
#include "cli/base/slurm_job.hpp"
#include "cli/status/status_report.hpp"

namespace nodestage {

// As this process's user, or as the job's when that is root. Each srun is ended after
// k_program_limit; its node is named among the faults then. Jobs and faults are empty where no node
// knows the job. A fault: Slurm or the user's account cannot be asked.
Result<StatusReport> ask_nodes(const SlurmJob& job, const std::string& socket);

// Of a step that only looks at a job. Its processes are the job's user's, and can be looked into:
// they get nothing of this process's environment. Nor may another job's SLURM_ variables steer
// srun.
std::vector<std::string> step_environment();

// The srun for one node, and what came of it: that is in the hands of the job's user, and tells of
// this job alone.
Program step_on(const std::string& node, const SlurmJob& job, const std::string& socket);
void add_answer(StatusReport& report, const std::string& node, const SlurmJob& job,
                const ProgramEnd& end);

}  // namespace nodestage
