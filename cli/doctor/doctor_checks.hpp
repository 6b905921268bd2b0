// The judgments of `nodestage doctor`: facts in, findings out. Pure, except for plugstack_line(),
// which reads plugstack.conf and the files that it includes.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/doctor/plugin_file.hpp"
#include "common/wire/daemon_about.hpp"
#include "plugin/plugin_settings.hpp"

namespace nodestage {

enum class Grade { ok, warning, problem };

struct Finding {
  Grade grade = Grade::ok;
  std::string what;
  std::string to_do;  // "" for `ok`
};

// The output of `scontrol show config`: values by name.
using SlurmConfig = std::map<std::string, std::string>;
SlurmConfig parse_slurm_config(std::string_view text);

// The release in "slurm-wlm 22.05.8", encoded as in Slurm's plugins, without the micro version; 0
// if there is none.
std::uint32_t slurm_release_of(std::string_view text);

Finding judge_plugin(const PluginFile& plugin, std::uint32_t slurm_release);

// The plugin's line in plugstack.conf.
struct PlugstackLine {
  std::string file;
  bool is_required = false;
  std::string plugin;  // as written: a name in PluginDir or a path
  std::vector<std::string> arguments;
  timespec changed{};  // of the file
};
// nullopt if there is no such line; a fault if a file cannot be read.
Result<std::optional<PlugstackLine>> plugstack_line(const std::string& path);
Finding judge_line(const std::optional<PlugstackLine>& line, const std::string& plugstack);
std::vector<Finding> judge_arguments(const PlugstackLine& line, const PluginSettings& settings);

// Whether a slurmd that started at `begun` has loaded the plugin and its line.
Finding judge_slurmd(const timespec& begun, const PluginFile& plugin, const PlugstackLine& line);

Finding judge_prolog_flags(const SlurmConfig& config);
Finding judge_batch_start(const SlurmConfig& config, const PluginSettings& settings);
// Slurm's time limits for prologs and epilogs. epilog_wait_s: the daemon's setting; 0: not known.
std::vector<Finding> judge_time_limits(const SlurmConfig& config, const PluginSettings& settings,
                                       std::uint64_t epilog_wait_s);
Finding judge_proctrack(const SlurmConfig& config);
// container_conf: the contents of job_container.conf; tmpdir_root: "" if not known.
Finding judge_private_tmp(const SlurmConfig& config, std::string_view container_conf,
                          const std::string& tmpdir_root);

// "" or 0: no such program or file. `command`: this command's version.
Finding judge_versions(const std::string& command, const std::string& daemon,
                       std::uint32_t plugin_version);

// For a daemon that does not answer, because of `fault`. unit: `systemctl show nodestaged`, or "".
Finding judge_silent_daemon(const std::string& fault, std::string_view unit);

struct LocalDisk {
  std::uint64_t type = 0;  // statfs(2)
  std::uint64_t free_bytes = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t free_inodes = 0;
};
std::vector<Finding> judge_disk(const LocalDisk& disk, const DaemonAbout& about);

// What the running daemon's workers reported.
Finding judge_sandbox(const DaemonAbout& about);
Finding judge_openat2(bool has_openat2);
Finding judge_cgroups(const DaemonAbout& about);

}  // namespace nodestage
