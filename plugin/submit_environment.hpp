// What an outer job's staging has left in the environment of sbatch, salloc or srun.
#pragma once

#include <string>

namespace nodestage {

// allocation: a new job. step: srun within an allocation, whose own variables stay.
enum class SubmitFor { allocation, step };

// Removes our variables from this process's environment, so that a job does not inherit what its
// parent staged:
//   - the options that Slurm exports (SLURM_SPANK_... would fire the callbacks again,
//     _SLURM_SPANK_OPTION_... would reach the new job's tasks); a step keeps --stage-wait, which is
//     the job's, and what tells its tasks that the job asked for staging
//   - the request in the job-control environment
//   - for an allocation: what a staged job's tasks were given (SLURM_TMPDIR, NODESTAGE_...)
// Not thread-safe, as environ is not.
void drop_inherited_variables(SubmitFor what);

}  // namespace nodestage
