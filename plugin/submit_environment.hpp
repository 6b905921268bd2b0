// Removes what an outer job's staging left in the environment of sbatch, salloc or srun.
#pragma once

namespace nodestage {

// allocation: a new job. step: srun within an allocation, whose variables are kept.
enum class SubmitFor { allocation, step };

// Removes our variables from this process's environment, so that a job does not inherit what its
// parent staged:
//   - the options that Slurm exports (SLURM_SPANK_... would fire the callbacks again,
//     _SLURM_SPANK_OPTION_... would reach the new job's tasks)
//   - the request in the job-control environment
//   - what staging set for the outer job's tasks (SLURM_TMPDIR, NODESTAGE_..., the virtual
//     environment's part of PATH, and VIRTUAL_ENV if it names that one)
// For a step, removes only what would fire the callbacks of --stage-dataset and --stage-out: the
// rest belongs to the step's job. The step also needs the request: without PrologFlags=Alloc, a
// node's prolog gets it from the step. Not thread-safe, as environ is not.
void drop_inherited_variables(SubmitFor what);

}  // namespace nodestage
