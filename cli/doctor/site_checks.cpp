#include "cli/doctor/site_checks.hpp"

#include <fcntl.h>

#include <algorithm>
#include <sstream>
#include <string_view>

#include "cli/doctor/conf_text.hpp"
#include "cli/doctor/plugin_file.hpp"
#include "common/os/file.hpp"

namespace nodestage {
namespace {

constexpr const char* k_epilog = "slurm_spank_job_epilog";
constexpr std::size_t k_max_script = 1 << 20;

bool names(std::string_view text, const std::string& word) {
  return !word.empty() && text.find(word) != std::string_view::npos;
}

bool names_root(const PlugstackLine& line, const std::string& root) {
  return std::any_of(line.arguments.begin(), line.arguments.end(),
                     [&root](const std::string& argument) { return names(argument, root); });
}

Finding judge_epilog(const PlugstackLine& line, const std::string& tmpdir_root) {
  const std::string what =
      line.plugin + " is listed before nodestage in " + line.file + ", so its epilog runs first";
  const std::string to_do =
      "Put nodestage's line before it: results are copied back in nodestage's epilog.";
  if (names_root(line, tmpdir_root))
    return problem(what + ", and its line names " + tmpdir_root +
                       ": if it removes job directories, their results are lost",
                   to_do);
  return warning(what + ": if it removes job directories, their results are lost", to_do);
}

// A script without its comments.
std::string script_text(const std::string& path) {
  const auto whole = read_file(AT_FDCWD, path, k_max_script);
  std::istringstream lines(whole ? *whole : std::string());
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find_first_not_of(" \t");
    if (first != std::string::npos && line[first] != '#') text += line + "\n";
  }
  return text;
}

// Returns the files of a setting: "Epilog = /etc/slurm/epilog.d/*"; newer releases of Slurm print
// "Epilog[0] = ..." for each.
std::vector<std::string> scripts_of(const SlurmConfig& config, const std::string& setting) {
  std::vector<std::string> scripts;
  for (const auto& [name, value] : config) {
    if (name != setting && !name.starts_with(setting + "[")) continue;
    std::istringstream patterns(value);
    for (std::string pattern; std::getline(patterns, pattern, ',');) {
      const std::vector<std::string> files = files_like(pattern);
      scripts.insert(scripts.end(), files.begin(), files.end());
    }
  }
  return scripts;
}

void judge_task_prolog(const std::string& path, std::vector<Finding>& findings) {
  if (!names(script_text(path), "SLURM_TMPDIR")) return;
  findings.push_back(
      warning("TaskProlog=" + path +
                  " names SLURM_TMPDIR: what it prints as `export SLURM_TMPDIR=...` wins over the "
                  "directory in which nodestage stages and looks for results",
              "Take that line out, or print it only where SLURM_TMPDIR is not set yet."));
}

void judge_prolog(const std::string& path, const std::string& root,
                  std::vector<Finding>& findings) {
  if (!names(script_text(path), root)) return;
  findings.push_back(
      warning("Prolog=" + path + " names " + root +
                  ": it runs while data are staged there, after nodestage's prolog",
              "Let it remove nothing there, and accept a job directory that exists (mkdir -p). "
              "tmpdir.create in nodestaged.toml says who makes it."));
}

void judge_script_epilog(const std::string& path, const std::string& root,
                         std::vector<Finding>& findings) {
  if (!names(script_text(path), root)) return;
  findings.push_back(warning(
      "Epilog=" + path + " names " + root +
          ": it runs after nodestage's epilog, in which results are copied back or moved away",
      "Let it remove the ended job's directory at most, and nothing that begins with .nodestage."));
}

}  // namespace

std::vector<Finding> judge_earlier_epilogs(const std::vector<PlugstackLine>& earlier,
                                           const std::string& plugin_directory,
                                           const std::string& tmpdir_root) {
  std::vector<Finding> findings;
  for (const PlugstackLine& line : earlier) {
    if (exports(plugin_path(line.plugin, plugin_directory), k_epilog))
      findings.push_back(judge_epilog(line, tmpdir_root));
  }
  if (findings.empty()) findings.push_back(ok("no other plugin's epilog runs before nodestage's"));
  return findings;
}

std::vector<Finding> judge_scripts(const SlurmConfig& config, const std::string& tmpdir_root) {
  std::vector<Finding> findings;
  for (const std::string& path : scripts_of(config, "TaskProlog"))
    judge_task_prolog(path, findings);
  for (const std::string& path : scripts_of(config, "Prolog"))
    judge_prolog(path, tmpdir_root, findings);
  for (const std::string& path : scripts_of(config, "Epilog"))
    judge_script_epilog(path, tmpdir_root, findings);
  return findings;
}

}  // namespace nodestage
