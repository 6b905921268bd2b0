// SlurmHost: what the plugin reads from the Slurm program that has loaded it, by dlsym, and all
// that differs from release to release. Everything has an answer for "not there", so that another
// release costs a feature and not the job.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace nodestage {

// EpilogTimeout, or PrologEpilogTimeout where there is only that; nothing when there is none.
std::optional<std::chrono::seconds> epilog_timeout();

// The job's host list, in the prolog and epilog; empty when it is not there.
std::string prolog_host_list();

// The names in Slurm's host list text ("n[1-3]"), in its order; none when it cannot be read.
std::vector<std::string> names_in_host_list(const std::string& host_list);

// Whether PrologFlags of slurm.conf has a job's prologs run when it is allocated (Alloc); true when
// that cannot be told.
bool prologs_run_at_allocation();

// The largest TmpDisk of all nodes, in bytes, asked of the controller (once, as sbatch itself
// does); nothing when it cannot be told, and where TmpFS is not set: TmpDisk is then /tmp's size,
// whatever the job directories lie on.
std::optional<std::uint64_t> largest_node_disk();

// What salloc is about to run: a command on this host, or a step (the interactive step, or a plain
// srun); `not_salloc` in every other program.
enum class SallocCommand { not_salloc, none, local, step };
SallocCommand salloc_command();

// Whether this is `srun --jobid=ID`: a step of a job that is there already.
bool srun_names_a_job();

}  // namespace nodestage
