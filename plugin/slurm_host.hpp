// SlurmHost: the ABI of Slurm. <spank.h> with typed access to its items, what the plugin reads,
// with dlsym, from the Slurm program that loaded it, and everything that differs between releases.
// Every function has a result for "not available", so that another release costs a feature and not
// the job.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "common/wire/protocol.hpp"

// spank.h declares the hooks before it opens its own extern "C".
extern "C" {
#include <slurm/spank.h>
}

namespace nodestage {

// The item's value, or `fallback` if it is not available in this context.
template <typename T>
T spank_item_or(spank_t spank, spank_item_t item, T fallback) {
  T value = fallback;
  return spank_get_item(spank, item, &value) == ESPANK_SUCCESS ? value : fallback;
}

// Returns a variable of the job's environment (remote context only), or "" if it is not set or has
// 1,024 bytes or more.
std::string spank_variable(spank_t spank, const char* name);

// Returns EpilogTimeout, or PrologEpilogTimeout where only that exists; nullopt: no limit.
std::optional<std::chrono::seconds> epilog_timeout();

// Returns whether Slurm may switch the node off when it is idle: there is a SuspendProgram, and
// SuspendExcNodes does not name the node. (Nodes "NAMES:COUNT" there are not excluded by name.)
bool powers_down(const std::string& node);

// Returns whether each process of a job is in a cgroup of Slurm's: ProctrackType is
// "proctrack/cgroup", the default.
bool jobs_have_cgroups();

// Returns the largest TmpDisk of all nodes, in bytes, from one request to the controller (as sbatch
// itself makes). nullopt if that is not known or TmpFS is not set: TmpDisk is then the size of
// /tmp, whatever file system the job directories are on.
std::optional<std::uint64_t> largest_node_disk();

// What salloc will run: a command on this host, or a step (the interactive step, or a plain srun);
// `not_salloc` in every other program.
enum class SallocCommand { not_salloc, none, local, step };
SallocCommand salloc_command();

// What the controller says of a job whose program ends here; `unknown` if it does not say.
enum class SlurmJobEnd { unknown, runs, completing, ended };
SlurmJobEnd job_end(std::uint32_t job);

// Returns whether this is `srun --jobid=ID`: a step of an existing job.
bool srun_names_a_job();

// The text of `sbatch --array`, by whichever way the option was given; "": this makes no array, and
// nothing: the program does not say.
std::optional<std::string> array_of_sbatch();
// The path of the batch script, as given to sbatch; "": it is not known. Slurm has read the command
// line by then.
std::string script_of_sbatch();
// Whether root has given --uid: the job is another user's.
bool is_for_another_user();

// Reads the facts about the job in the environment that slurmd gives the prolog and the epilog.

// Returns the encoded request from the user's side, untrusted; "" if there is none.
std::string requested_staging();

// Returns 0 if the variable is missing or not a number. No job has the id 0.
std::uint32_t number_from_environment(const char* name);
std::string text_from_environment(const char* name);

Begin begin_from_environment();

// Reads all but limit_s. After a requeue, slurmd gives the epilog the restart count of the next
// run, so the job id alone identifies the run here: a node has at most one run of a job at a time.
End end_from_environment();

}  // namespace nodestage
