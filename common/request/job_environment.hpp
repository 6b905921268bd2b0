// The environment variables that show a job's processes what was staged for them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nodestage {

// Whether `name` is a variable that staging sets for a job's tasks.
bool is_of_a_staged_job(std::string_view name);

// Marks a step that only observes the job (`nodestage status`): it waits for nothing, and its exit
// status does not count as the job's outcome.
inline constexpr const char* k_observer_variable = "NODESTAGE_OBSERVER";

// If this process belongs to a staged job, removes these variables from its environment, since what
// they name does not exist on another job's nodes. Also removes the staged virtual environment from
// PATH, VIRTUAL_ENV if it names that one, and the cache from the lists of bind paths. Not
// thread-safe, as environ is not.
void leave_staged_job();

// The name in NAME=VALUE if staging may set it (SLURM_TMPDIR, NODESTAGE_[A-Z0-9_]*), else "".
std::string settable_name(const std::string& variable);

struct VariableChange {
  std::string name;
  std::optional<std::string> value;  // nullopt: unset it

  bool operator==(const VariableChange&) const = default;
};

// The path of the staged virtual environment, from staging's NAME=VALUE list; "" if there is none.
std::string venv_in(const std::vector<std::string>& environment);

// The path of the node's cache, from the same list; "" if there is none, and if it cannot be in a
// list of bind paths.
std::string cache_in(const std::vector<std::string>& environment);

// The lists of paths, separated by commas, that a container sees in addition to its own.
inline constexpr const char* k_bind_lists[] = {"APPTAINER_BINDPATH", "SINGULARITY_BINDPATH"};

// `list` with `path` at its end only, and `list` without it.
std::string bind_list_with(std::string_view list, std::string_view path);
std::string bind_list_without(std::string_view list, std::string_view path);

// The changes that the script `activate` of a virtual environment would make; `path` is the current
// PATH.
std::vector<VariableChange> activation_of(const std::string& venv, std::string_view path);

}  // namespace nodestage
