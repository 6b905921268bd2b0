#include "plugin/submit_environment.hpp"

#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "plugin/venv_environment.hpp"

namespace nodestage {
namespace {

constexpr std::string_view k_option_prefix = "_SLURM_SPANK_OPTION_nodestage_";

// What of a variable of ours an inner submission must not see.
bool is_inherited_option(std::string_view name, SubmitFor what) {
  const bool reimported = name.starts_with("SLURM_SPANK_");
  if (reimported) name.remove_prefix(std::string_view("SLURM_SPANK_").size());
  if (!name.starts_with(k_option_prefix)) return false;
  if (what == SubmitFor::allocation) return true;
  return reimported && !name.ends_with("_stage_wait");
}

bool is_inherited_request(std::string_view name, SubmitFor what) {
  if (what == SubmitFor::step) return false;
  return name == "SLURM_SPANK_NODESTAGE_SPEC" || name == "SPANK_NODESTAGE_SPEC";
}

// Another job will not find it on its nodes.
void leave_venv() {
  const char* venv = std::getenv("NODESTAGE_VENV");
  if (venv == nullptr || *venv == '\0') return;
  const char* active = std::getenv("VIRTUAL_ENV");
  if (active != nullptr && std::string_view(active) == venv) ::unsetenv("VIRTUAL_ENV");
  if (const char* path = std::getenv("PATH"); path != nullptr) {
    ::setenv("PATH", path_without(path, std::string(venv) + "/bin").c_str(), 1);
  }
}

}  // namespace

bool is_of_a_staged_job(std::string_view name) {
  return name == "SLURM_TMPDIR" || name == "NODESTAGE_JOBID" || name == "NODESTAGE_VENV" ||
         name.starts_with("NODESTAGE_DATASET");
}

void drop_inherited_variables(SubmitFor what) {
  const bool in_staged_job =
      what == SubmitFor::allocation && std::getenv("NODESTAGE_JOBID") != nullptr;
  if (in_staged_job) leave_venv();
  std::vector<std::string> names;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view variable(*entry);
    const std::string_view name = variable.substr(0, variable.find('='));
    if (is_inherited_option(name, what) || is_inherited_request(name, what) ||
        (in_staged_job && is_of_a_staged_job(name))) {
      names.emplace_back(name);
    }
  }
  for (const auto& name : names) ::unsetenv(name.c_str());
}

}  // namespace nodestage
