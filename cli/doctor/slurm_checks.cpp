#include <fcntl.h>

#include <algorithm>
#include <string_view>

#include "cli/doctor/checks.hpp"
#include "cli/doctor/plugstack.hpp"
#include "cli/doctor/version_text.hpp"
#include "common/build_info.hpp"
#include "common/os/file.hpp"
#include "common/text/human.hpp"
#include "common/text/parsing.hpp"
#include "common/text/path_names.hpp"

namespace nodestage {
namespace {

// The plugin leaves this much of PrologEpilogTimeout.
constexpr std::uint64_t k_epilog_margin_s = 15;
constexpr std::uint64_t k_no_timeout = 65534;

std::string value_of(const SlurmConfig& config, const std::string& name) {
  const auto found = config.find(name);
  return found == config.end() || found->second == "(null)" ? "" : found->second;
}

// "10 sec", "65534", "" .
std::uint64_t number_of(std::string_view text) {
  return take_number<std::uint64_t>(text).value_or(0);
}

bool is_later(const timespec& a, const timespec& b) {
  return a.tv_sec != b.tv_sec ? a.tv_sec > b.tv_sec : a.tv_nsec > b.tv_nsec;
}

// The limit of prologs or epilogs, in seconds, and its name in slurm.conf.
struct TimeLimit {
  std::string name;
  std::uint64_t seconds = 0;

  [[nodiscard]] bool is_none() const { return seconds == 0 || seconds >= k_no_timeout; }
  [[nodiscard]] std::string text() const {
    return name + (is_none() ? ": none" : "=" + std::to_string(seconds));
  }
};

// Returns the plugin that gives each job a private /tmp; "" without one.
std::string private_tmp_type(const SlurmConfig& config) {
  const std::string type = value_of(config, "JobContainerType");
  return type.empty() ? value_of(config, "NamespaceType") : type;
}

Finding judge_prolog_limit(const TimeLimit& limit, const PluginSettings& settings) {
  const auto begin_wait = static_cast<std::uint64_t>(settings.begin_wait.count());
  if (limit.is_none() || limit.seconds > begin_wait + k_epilog_margin_s) return ok(limit.text());
  return problem(limit.text() +
                     ": too short for a prolog that waits for the daemon, or for any stage-out; a "
                     "timeout drains the node",
                 "Set it to 300 or more in slurm.conf.");
}

// epilog_wait_s: the daemon's setting; 0: not known.
Finding judge_epilog_limit(const TimeLimit& limit, const PluginSettings& settings,
                           std::uint64_t epilog_wait_s) {
  auto wait = static_cast<std::uint64_t>(epilog_wait_of(settings, false).count());
  if (epilog_wait_s != 0) wait = std::min(wait, epilog_wait_s);
  if (limit.is_none() || limit.seconds >= wait + k_epilog_margin_s) return ok(limit.text());
  const std::uint64_t left =
      limit.seconds > k_epilog_margin_s ? limit.seconds - k_epilog_margin_s : 1;
  return warning(limit.text() + ": an epilog waits " + std::to_string(left) +
                     " s for results instead of " + std::to_string(wait) +
                     " s; the rest is copied in the background",
                 "Set it to " + std::to_string(wait + k_epilog_margin_s) +
                     " or more in slurm.conf, or stageout.epilog_wait to less.");
}

}  // namespace

SlurmConfig parse_slurm_config(std::string_view text) {
  SlurmConfig config;
  for (const std::string_view line : parts_of(text, '\n')) {
    const std::size_t equals = line.find('=');
    if (equals != std::string_view::npos)
      config[std::string(trimmed(line.substr(0, equals)))] = trimmed(line.substr(equals + 1));
  }
  return config;
}

std::uint32_t slurm_release_of(std::string_view text) {
  const std::size_t begin = text.find_first_of("0123456789");
  if (begin == std::string_view::npos) return 0;
  text.remove_prefix(begin);
  const auto major = take_number<std::uint32_t>(text);
  if (!major || !text.starts_with('.')) return 0;
  text.remove_prefix(1);
  const auto minor = take_number<std::uint32_t>(text);
  return minor ? *major << 16 | *minor << 8 : 0;
}

bool is_controller(const SlurmConfig& config, const std::string& host) {
  return std::any_of(config.begin(), config.end(), [&host](const auto& item) {
    if (!item.first.starts_with("SlurmctldHost")) return false;
    return item.second.substr(0, item.second.find_first_of("(.")) == host.substr(0, host.find('.'));
  });
}

// A reason is the site's own text, so it is not in what a report for a bug has.
std::vector<Finding> judge_node_state(const SlurmNode* node) {
  if (node == nullptr) return {};
  const bool is_down = node->state.starts_with("down") || node->state.starts_with("fail");
  const bool is_drained = node->state.starts_with("drain");
  std::string what = "Slurm's state of this node: " + node->state;
  // Slurm marks a node as silent, too, that an administrator has set down.
  if (node->is_silent && !is_down) what += ", and slurmd does not answer the controller";
  if (!is_down && !is_drained && !node->is_silent) return {ok(std::move(what))};
  std::string to_do;
  if (is_down || is_drained) {
    what += is_drained ? ": it gets no new job" : ": it gets no job";
    if (!node->reason.empty()) to_do = "Its reason: " + printable(node->reason) + ". ";
    to_do += "Remove the cause. Then: scontrol update nodename=" + node->name + " state=resume";
  } else {
    to_do = "Look at slurmd's log, and whether the controller reaches this host.";
  }
  return {warning(std::move(what), std::move(to_do))};
}

Finding judge_plugin(const PluginFile& plugin, std::uint32_t slurm_release) {
  const std::string is_for =
      plugin.path + " is for Slurm " + slurm_release_text(plugin.slurm_version);
  if (slurm_release == 0)
    return warning(is_for + "; this host's Slurm does not report its version",
                   "See scontrol --version.");
  if (plugin.slurm_version >> 8 == slurm_release >> 8) return ok(is_for + ", as is this host's");
  return problem(
      is_for + ", but this host's is " + slurm_release_text(slurm_release),
      "Install the package that was built for Slurm " + slurm_release_text(slurm_release) + ".");
}

Finding judge_slurmd(const timespec& begun, const PluginFile& plugin, const PlugstackLine& line) {
  const std::string since =
      "slurmd has been running since " + human_date(static_cast<std::uint64_t>(begun.tv_sec));
  const auto after = [&since](const char* what, const timespec& when) {
    return since + ", but the plugin" + what + human_date(static_cast<std::uint64_t>(when.tv_sec));
  };
  if (is_later(plugin.installed, begun))
    return problem(after(" was installed ", plugin.installed),
                   "systemctl restart slurmd: it loads plugins only when it starts; jobs go on.");
  if (is_later(line.changed, begun))
    return warning(
        after("'s line was changed ", line.changed),
        "If the line is new: systemctl restart slurmd. For new arguments alone, do nothing.");
  return ok(since + ", after the plugin was installed");
}

Finding judge_prolog_flags(const SlurmConfig& config) {
  const std::string flags = value_of(config, "PrologFlags");
  const std::string small = lower(flags);
  for (const char* flag : {"alloc", "contain", "x11"}) {
    if (small.find(flag) != std::string::npos) return ok("PrologFlags=" + flags);
  }
  return problem(
      "PrologFlags has no Alloc: a job's nodes start to stage only with their first step, so jobs "
      "of several nodes fail",
      "Set PrologFlags=Alloc in slurm.conf (Contain includes it); scontrol reconfigure.");
}

Finding judge_batch_start(const SlurmConfig& config, const PluginSettings& settings) {
  const std::uint64_t limit = number_of(value_of(config, "BatchStartTimeout"));
  const auto wait = static_cast<std::uint64_t>(settings.begin_wait.count());
  const std::string what = "BatchStartTimeout=" + std::to_string(limit);
  if (limit > wait) return ok(what);
  return warning(
      what + ": while the daemon is away a prolog takes " + std::to_string(wait) +
          " s (begin_wait), and Slurm would requeue the job",
      "Set BatchStartTimeout to " + std::to_string(wait + 5) + " or more in slurm.conf.");
}

std::vector<Finding> judge_time_limits(const SlurmConfig& config, const PluginSettings& settings,
                                       std::uint64_t epilog_wait_s) {
  const auto limit_in = [&config](const char* name) -> TimeLimit {
    return {name, number_of(value_of(config, name))};
  };
  if (config.count("EpilogTimeout") > 0)  // from Slurm 25.11 on
    return {judge_prolog_limit(limit_in("PrologTimeout"), settings),
            judge_epilog_limit(limit_in("EpilogTimeout"), settings, epilog_wait_s)};
  const TimeLimit both = limit_in("PrologEpilogTimeout");
  Finding prolog = judge_prolog_limit(both, settings);
  if (prolog.grade != Grade::ok) return {std::move(prolog)};
  return {judge_epilog_limit(both, settings, epilog_wait_s)};
}

Finding judge_proctrack(const SlurmConfig& config) {
  const std::string type = value_of(config, "ProctrackType");
  if (type == "proctrack/cgroup") return ok("ProctrackType=" + type);
  return warning("ProctrackType=" + type + ": processes can leave their job",
                 "Set ProctrackType=proctrack/cgroup in slurm.conf.");
}

std::vector<Finding> judge_power(const SlurmConfig& config) {
  const std::string program = value_of(config, "SuspendProgram");
  if (program.empty() || program == "(null)") return {};
  return {
      warning("SuspendProgram=" + program +
                  ": a node of a cloud that is switched off loses the results that it holds. The "
                  "epilog waits for deliveries as long as Slurm lets it",
              "Watch nodestage_held_results_at_risk, and name nodes that hold results in "
              "SuspendExcNodes. If your nodes keep their disks, nothing is lost.")};
}

std::string private_tmp_file(const SlurmConfig& config) {
  return private_tmp_type(config).find("linux") == std::string::npos ? "job_container.conf"
                                                                     : "namespace.yaml";
}

Finding judge_private_tmp(const SlurmConfig& config, std::string_view conf,
                          const std::string& tmpdir_root) {
  const std::string type = private_tmp_type(config);
  const bool is_linux = type.find("linux") != std::string::npos;
  if (!is_linux && type.find("tmpfs") == std::string::npos) return ok("no private /tmp");
  std::vector<std::string> hidden =
      is_linux ? yaml_values_in(conf, "dirs") : values_in(conf, "Dirs");
  if (hidden.empty()) hidden = {"/tmp", "/dev/shm"};
  for (const std::string& base :
       is_linux ? yaml_values_in(conf, "base_path") : values_in(conf, "BasePath"))
    hidden.push_back(base);
  if (tmpdir_root.empty())
    return warning(
        "private /tmp (" + type + "); the daemon does not report where job directories are",
        "tmpdir.path must be outside of what " + private_tmp_file(config) + " names.");
  for (const std::string& directory : hidden) {
    if (!is_below(tmpdir_root, directory)) continue;
    std::string what = "private /tmp (" + type + "): job directories in ";
    what.append(tmpdir_root).append(" are hidden from jobs by ").append(directory);
    return problem(std::move(what),
                   "Set tmpdir.path to a directory outside of it (nodestaged.toml).");
  }
  return ok("private /tmp (" + type + "); job directories are outside of it");
}

namespace {

constexpr const char* k_epilog = "slurm_spank_job_epilog";
constexpr std::size_t k_max_script = 1 << 20;

bool names(std::string_view text, const std::string& word) {
  return !word.empty() && text.find(word) != std::string_view::npos;
}

Finding judge_epilog(const PlugstackLine& line, const std::string& tmpdir_root) {
  const std::string what =
      line.plugin + " is listed before nodestage in " + line.file + ", so its epilog runs first";
  const std::string risk = ": if it removes job directories, their results are lost";
  const std::string to_do =
      "Put nodestage's line before it: results are copied back in nodestage's epilog.";
  for (const std::string& argument : line.arguments) {
    if (names(argument, tmpdir_root))
      return problem(what + ", and its line names " + tmpdir_root + risk, to_do);
  }
  return warning(what + risk, to_do);
}

// A script without its comments.
std::string commands_of_script(const std::string& path) {
  const auto whole = read_file(AT_FDCWD, path, k_max_script);
  std::string text;
  for (const std::string_view line : parts_of(whole ? *whole : std::string_view(), '\n')) {
    const std::size_t first = line.find_first_not_of(" \t");
    if (first != std::string_view::npos && line[first] != '#') text.append(line) += '\n';
  }
  return text;
}

// Returns the files of a setting: "Epilog = /etc/slurm/epilog.d/*"; newer releases of Slurm print
// "Epilog[0] = ..." for each.
std::vector<std::string> scripts_of(const SlurmConfig& config, const std::string& setting) {
  std::vector<std::string> scripts;
  for (const auto& [name, value] : config) {
    if (name != setting && !name.starts_with(setting + "[")) continue;
    for (const std::string_view pattern : parts_of(value, ',')) {
      const std::vector<std::string> files = files_like(std::string(pattern));
      scripts.insert(scripts.end(), files.begin(), files.end());
    }
  }
  return scripts;
}

// What is said of a script of one setting that names `word`.
struct ScriptCheck {
  const char* setting;
  std::string word;
  const char* harm;
  const char* to_do;
};

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
  const ScriptCheck checks[] = {
      {"TaskProlog", "SLURM_TMPDIR",
       ": what it prints as `export SLURM_TMPDIR=...` wins over the directory in which nodestage "
       "stages and looks for results",
       "Take that line out, or print it only where SLURM_TMPDIR is not set yet."},
      {"Prolog", tmpdir_root, ": it runs while data are staged there, after nodestage's prolog",
       "Let it remove nothing there, and accept a job directory that exists (mkdir -p). "
       "tmpdir.create in nodestaged.toml says who makes it."},
      {"Epilog", tmpdir_root,
       ": it runs after nodestage's epilog, in which results are copied back or moved away",
       "Let it remove the ended job's directory at most, and nothing that begins with "
       ".nodestage."}};
  std::vector<Finding> findings;
  for (const ScriptCheck& check : checks) {
    for (const std::string& path : scripts_of(config, check.setting)) {
      if (names(commands_of_script(path), check.word))
        findings.push_back(
            warning(std::string(check.setting) + "=" + path + " names " + check.word + check.harm,
                    check.to_do));
    }
  }
  return findings;
}

}  // namespace nodestage
