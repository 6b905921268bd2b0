#include "plugin/submit_environment.hpp"

#include <unistd.h>

#include <cstdlib>
#include <vector>

#include "common/request/job_environment.hpp"

namespace nodestage {
namespace {

constexpr std::string_view k_option_prefix = "_SLURM_SPANK_OPTION_nodestage_";

// Returns whether an inner submission must not inherit this variable.
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

}  // namespace

void drop_inherited_variables(SubmitFor what) {
  if (what == SubmitFor::allocation) leave_staged_job();
  std::vector<std::string> names;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view variable(*entry);
    const std::string_view name = variable.substr(0, variable.find('='));
    if (is_inherited_option(name, what) || is_inherited_request(name, what))
      names.emplace_back(name);
  }
  for (const auto& name : names) ::unsetenv(name.c_str());
}

}  // namespace nodestage
