// The variables by which a job's processes know what was staged for them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nodestage {

// A variable that a staged job's tasks are given.
bool is_of_a_staged_job(std::string_view name);

// In a step's environment: it only looks at the job (`nodestage status`), so it waits for nothing
// and its end tells nothing of how the job did.
inline constexpr const char* k_observer_variable = "NODESTAGE_OBSERVER";

// Removes them from this process's environment, when it is of a staged job: another job will not
// find on its nodes what they name. So goes its Python environment's part of PATH, and VIRTUAL_ENV
// when it is that environment. Not thread-safe, as environ is not.
void leave_staged_job();

// The name of NAME=VALUE when it is one that staging may set (SLURM_TMPDIR, NODESTAGE_[A-Z0-9_]*),
// else "".
std::string settable_name(const std::string& variable);

struct VariableChange {
  std::string name;
  std::optional<std::string> value;  // nothing: it is unset

  bool operator==(const VariableChange&) const = default;
};

// Where the staged Python environment lies, by the variables that staging gave; "": there is none.
std::string venv_in(const std::vector<std::string>& environment);

// What its activate script would do; `path` is PATH as it was.
std::vector<VariableChange> activation_of(const std::string& venv, std::string_view path);

}  // namespace nodestage
