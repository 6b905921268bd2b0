// The environment variables that show a job's processes what was staged for them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nodestage {

// Finds the variables of a staged virtual environment: at submit, those that a build will need; in
// the task, PATH.

// The variables of this process that a build may need, as NAME=VALUE: the allow-list in the source
// and those that `more` names ("NAME", or "PREFIX*" for all with that prefix). Sorted, without
// empty values. Not thread-safe, as environ is not.
std::vector<std::string> environment_for_build(const std::vector<std::string>& more);

// Returns whether it is a file that this process may run.
bool is_program(const std::string& path);
// Returns whether a program is looked up in PATH by it, as a shell does: printable ASCII without
// '/' that starts with a letter or a digit.
bool is_program_name(std::string_view name);
// Returns the program of that name that a shell would find in `path`; "" if there is none. Relative
// parts of `path` are ignored.
std::string program_in_path(std::string_view path, std::string_view name);
// Returns the python3, or else the python, that a shell would find in `path`; "" if there is none.
std::string python_in(std::string_view path);

// Returns the environment's directory for a path that is probably meant for it: its bin, an
// activate script or a python in that, or its pyvenv.cfg. "" for any other path. Only for such a
// name, it looks at the file system.
std::string environment_around(const std::string& path);

// Return `path` with `directory` at its start only, and `path` without it.
std::string path_with_first(std::string_view path, std::string_view directory);
std::string path_without(std::string_view path, std::string_view directory, char separator = ':');

// Returns whether `name` is a variable that staging sets for a job's tasks.
bool is_of_a_staged_job(std::string_view name);

// Marks a step that only observes the job (`nodestage status`): it waits for nothing, and its exit
// status does not count as the job's outcome.
inline constexpr const char* k_observer_variable = "NODESTAGE_OBSERVER";

// If this process belongs to a staged job, removes these variables from its environment, since what
// they name does not exist on another job's nodes. Also removes the staged virtual environment from
// PATH, each of k_active_variables that names it, and the cache from the lists of bind paths. Not
// thread-safe, as environ is not.
void leave_staged_job();

// The name in NAME=VALUE if staging may set it (SLURM_TMPDIR, NODESTAGE_[A-Z0-9_]*), else "".
std::string settable_name(const std::string& variable);

struct VariableChange {
  std::string name;
  std::optional<std::string> value;  // nullopt: unset it

  bool operator==(const VariableChange&) const = default;
};

// Makes the changes in this process. Not thread-safe, as environ is not.
void change_environment(const std::vector<VariableChange>& changes);

// Returns the path of the staged environment, from staging's NAME=VALUE list; "": none.
std::string venv_in(const std::vector<std::string>& environment);

// The variables that name the active environment: the first one any, the others one of conda.
inline constexpr const char* k_active_variables[] = {"VIRTUAL_ENV", "CONDA_PREFIX",
                                                     "CONDA_DEFAULT_ENV"};

// Returns the changes that the script `activate` of the environment would make, but for what
// conda's packages have for it; `path` is the current PATH.
std::vector<VariableChange> activation_of(const std::string& venv, std::string_view path);

// The value of a variable of a task, or "".
using VariableLookup = std::function<std::string(const char* name)>;

// Returns the changes that let the task's containers see its node's cache: staging's list names it
// in NODESTAGE_CACHE, and the lists of bind paths get it once, unless it has ',' or ':'. A task
// that inherits both from a process of its job keeps later changes to the lists. A container does
// not start with a bind path that does not exist, so the cache of another node is removed.
std::vector<VariableChange> cache_binding_of(const std::vector<std::string>& environment,
                                             const std::string& job,
                                             const VariableLookup& value_of);

// Returns the changes that remove the cache named by the task's NODESTAGE_CACHE, and this variable.
std::vector<VariableChange> cache_removal_of(const VariableLookup& value_of);

// Removes what an outer job's staging left in the environment of sbatch, salloc or srun.

// allocation: a new job. step: srun within an allocation, whose variables are kept.
enum class SubmitFor { allocation, step };

// Removes our variables from this process's environment, so that a job does not inherit what its
// parent staged:
//   - the options that Slurm exports (SLURM_SPANK_... would fire the callbacks again,
//     _SLURM_SPANK_OPTION_... would reach the new job's tasks)
//   - the request in the job-control environment
//   - what staging set for the outer job's tasks (SLURM_TMPDIR, NODESTAGE_..., the virtual
//     environment's part of PATH, and each of k_active_variables that names it)
// For a step, removes only what would fire the callbacks of --stage-dataset and --stage-out: the
// rest belongs to the step's job. The step also needs the request: without PrologFlags=Alloc, a
// node's prolog gets it from the step. Not thread-safe, as environ is not.
void drop_inherited_variables(SubmitFor what);

}  // namespace nodestage
