#include "common/request/job_environment.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <vector>

#include "common/os/child.hpp"
#include "common/text/parsing.hpp"
#include "common/text/path_names.hpp"

namespace nodestage {
namespace {

// No variable that can hold a secret (PIP_INDEX_URL), and none that the build sets itself.
constexpr std::string_view k_for_build[] = {
    "PATH",          "LD_LIBRARY_PATH", "PYTHONPATH",     "HOME",           "XDG_CONFIG_HOME",
    "MODULEPATH",    "PIP_CONFIG_FILE", "PIP_FIND_LINKS", "PIP_CONSTRAINT", "UV_CONFIG_FILE",
    "UV_FIND_LINKS", "UV_CONSTRAINT"};

bool matches(std::string_view name, std::string_view pattern) {
  if (!pattern.ends_with('*')) return name == pattern;
  pattern.remove_suffix(1);
  return !pattern.empty() && name.starts_with(pattern);
}

}  // namespace

std::vector<std::string> environment_for_build(const std::vector<std::string>& more) {
  std::vector<std::string> found;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view variable(*entry);
    const std::size_t equals = variable.find('=');
    if (equals == std::string_view::npos || equals + 1 == variable.size()) continue;
    const std::string_view name = variable.substr(0, equals);
    const auto names_it = [name](std::string_view pattern) { return matches(name, pattern); };
    if (std::any_of(std::begin(k_for_build), std::end(k_for_build), names_it) ||
        std::any_of(more.begin(), more.end(), names_it)) {
      found.emplace_back(variable);
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

bool is_program(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
         ::access(path.c_str(), X_OK) == 0;
}

bool is_program_name(std::string_view name) {
  const auto is_alphanumeric = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
  };
  return !name.empty() && is_alphanumeric(name[0]) &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return c > ' ' && c < 0x7f && c != '/'; });
}

std::string program_in_path(std::string_view path, std::string_view name) {
  for (const std::string_view part : parts_of(path, ':')) {
    std::string program = std::string(part).append("/").append(name);
    if (part.starts_with('/') && is_program(program)) return program;
  }
  return {};
}

std::string environment_around(const std::string& path) {
  namespace fs = std::filesystem;
  const fs::path part = without_slashes(path);
  const std::string name = part.filename();
  fs::path directory;
  if (name == "bin" || name == "pyvenv.cfg") directory = part.parent_path();
  const bool is_of_bin =
      name.starts_with("activate") || name.starts_with("Activate") || name.starts_with("python");
  if (is_of_bin && part.parent_path().filename() == "bin")
    directory = part.parent_path().parent_path();
  std::error_code failed;
  const bool is_one = !directory.empty() && (fs::exists(directory / "pyvenv.cfg", failed) ||
                                             fs::exists(directory / "conda-meta", failed));
  return is_one ? directory.string() : std::string();
}

std::string python_in(std::string_view path) {
  std::string found = program_in_path(path, "python3");
  return found.empty() ? program_in_path(path, "python") : found;
}

std::string path_without(std::string_view path, std::string_view directory, char separator) {
  std::string rest;
  for (const std::string_view part : parts_of(path, separator))
    if (part != directory) rest.append(part) += separator;
  if (!rest.empty()) rest.pop_back();
  return rest;
}

std::string path_with_first(std::string_view path, std::string_view directory) {
  const std::string rest = path_without(path, directory);
  return std::string(directory) + (rest.empty() ? "" : ":" + rest);
}

namespace {

// Lists of paths, separated by commas, that containers see in addition to their own.
constexpr const char* k_bind_lists[] = {"APPTAINER_BINDPATH", "SINGULARITY_BINDPATH"};

void leave_venv() {
  const std::string venv = own_variable("NODESTAGE_VENV");
  if (venv.empty()) return;
  for (const char* name : k_active_variables)
    if (own_variable(name) == venv) ::unsetenv(name);
  if (const char* path = std::getenv("PATH"); path != nullptr)
    ::setenv("PATH", path_without(path, venv + "/bin").c_str(), 1);
}

// Removes the variables of this process whose names are chosen.
template <typename IsChosen>
void unset_all(IsChosen is_chosen) {
  std::vector<std::string> names;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view variable(*entry);
    const std::string_view name = variable.substr(0, variable.find('='));
    if (is_chosen(name)) names.emplace_back(name);
  }
  for (const auto& name : names) ::unsetenv(name.c_str());
}

// "" if `assignment` ("NAME=") is not in the list, or its value is not an absolute path.
std::string absolute_value(const std::vector<std::string>& environment,
                           std::string_view assignment) {
  for (const std::string& variable : environment) {
    if (!variable.starts_with(assignment) || settable_name(variable).empty()) continue;
    const std::string value = variable.substr(assignment.size());
    return value.starts_with('/') ? value : std::string();
  }
  return {};
}

}  // namespace

bool is_of_a_staged_job(std::string_view name) {
  return name == "SLURM_TMPDIR" || name == "NODESTAGE_JOBID" || name == "NODESTAGE_RUN" ||
         name == "NODESTAGE_VENV" || name == "NODESTAGE_CACHE" || name == "NODESTAGE_PUSH_DIR" ||
         name.starts_with("NODESTAGE_DATASET");
}

void leave_staged_job() {
  if (std::getenv("NODESTAGE_JOBID") == nullptr && std::getenv("NODESTAGE_RUN") == nullptr) return;
  leave_venv();
  change_environment(cache_removal_of(own_variable));
  unset_all(is_of_a_staged_job);
}

void change_environment(const std::vector<VariableChange>& changes) {
  for (const auto& [name, value] : changes) {
    if (value)
      ::setenv(name.c_str(), value->c_str(), 1);
    else
      ::unsetenv(name.c_str());
  }
}

std::string settable_name(const std::string& variable) {
  static constexpr std::string_view k_ours = "NODESTAGE_";
  const std::size_t equals = variable.find('=');
  if (equals == std::string::npos || variable.find('\0') != std::string::npos) return {};
  std::string name = variable.substr(0, equals);
  if (name == "SLURM_TMPDIR") return name;
  const bool ours = name.size() > k_ours.size() && name.starts_with(k_ours) &&
                    std::all_of(name.begin(), name.end(), [](char c) {
                      return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
                    });
  return ours ? name : std::string();
}

std::string venv_in(const std::vector<std::string>& environment) {
  return absolute_value(environment, "NODESTAGE_VENV=");
}

std::vector<VariableChange> activation_of(const std::string& venv, std::string_view path) {
  if (path.empty()) path = "/usr/local/bin:/usr/bin:/bin";
  std::vector<VariableChange> changes = {{"PATH", path_with_first(path, venv + "/bin")}};
  const bool is_conda = ::access((venv + "/conda-meta").c_str(), F_OK) == 0;
  for (const char* name : k_active_variables) {
    if (is_conda || std::string_view(name) == "VIRTUAL_ENV") changes.push_back({name, venv});
  }
  changes.push_back({"PYTHONHOME", std::nullopt});
  return changes;
}

std::vector<VariableChange> cache_binding_of(const std::vector<std::string>& environment,
                                             const std::string& job,
                                             const VariableLookup& value_of) {
  const std::string cache = absolute_value(environment, "NODESTAGE_CACHE=");
  if (cache.find_first_of(",:") != std::string::npos) return {};
  if (cache.empty())
    return environment.empty() ? std::vector<VariableChange>() : cache_removal_of(value_of);
  const std::string before = value_of("NODESTAGE_CACHE");
  if (before == cache && value_of("NODESTAGE_JOBID") == job) return {};
  std::vector<VariableChange> changes;
  for (const char* name : k_bind_lists) {
    std::string list = path_without(path_without(value_of(name), cache, ','), before, ',');
    if (!list.empty()) list += ',';
    changes.push_back({name, list + cache});
  }
  return changes;
}

std::vector<VariableChange> cache_removal_of(const VariableLookup& value_of) {
  const std::string cache = value_of("NODESTAGE_CACHE");
  if (cache.empty()) return {};
  std::vector<VariableChange> changes{{"NODESTAGE_CACHE", std::nullopt}};
  for (const char* name : k_bind_lists) {
    const std::string list = value_of(name);
    std::string rest = path_without(list, cache, ',');
    if (rest == list) continue;
    changes.push_back({name, rest.empty() ? std::nullopt : std::optional(std::move(rest))});
  }
  return changes;
}

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
  unset_all([what](std::string_view name) {
    return is_inherited_option(name, what) || is_inherited_request(name, what);
  });
}

}  // namespace nodestage
