// What `nodestage doctor` thinks of what it finds: facts in, findings out. Pure, but for
// plugstack_line(), which reads plugstack.conf and what it includes.
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
  std::string to_do;  // "" when it is ok
};

// `scontrol show config`: the values by their names.
using SlurmConfig = std::map<std::string, std::string>;
SlurmConfig parse_slurm_config(std::string_view text);

// Of "slurm-wlm 22.05.8": 22.05.8 as Slurm's plugins have it, without the micro; 0: none in it.
std::uint32_t slurm_release_of(std::string_view text);

Finding judge_plugin(const PluginFile& plugin, std::uint32_t slurm_release);

// The plugin's line in plugstack.conf.
struct PlugstackLine {
  std::string file;
  bool is_required = false;
  std::string plugin;  // as written: a name in PluginDir or a path
  std::vector<std::string> arguments;
  timespec changed{};  // the file
};
// Nothing when there is no such line; a fault when a file cannot be read.
Result<std::optional<PlugstackLine>> plugstack_line(const std::string& path);
Finding judge_line(const std::optional<PlugstackLine>& line, const std::string& plugstack);
std::vector<Finding> judge_arguments(const PlugstackLine& line, const PluginSettings& settings);

// Whether the slurmd that began then has seen the plugin and its line.
Finding judge_slurmd(const timespec& begun, const PluginFile& plugin, const PlugstackLine& line);

Finding judge_prolog_flags(const SlurmConfig& config);
Finding judge_batch_start(const SlurmConfig& config, const PluginSettings& settings);
// How long Slurm lets prologs and epilogs take. epilog_wait_s: of the daemon; 0: not known.
std::vector<Finding> judge_time_limits(const SlurmConfig& config, const PluginSettings& settings,
                                       std::uint64_t epilog_wait_s);
Finding judge_proctrack(const SlurmConfig& config);
// container_conf: job_container.conf; tmpdir_root "": not known.
Finding judge_private_tmp(const SlurmConfig& config, std::string_view container_conf,
                          const std::string& tmpdir_root);

// "": no such program or file. `command`: this one's.
Finding judge_versions(const std::string& command, const std::string& daemon,
                       std::uint32_t plugin_version);

// The daemon does not answer, and `fault` is why not. unit: `systemctl show nodestaged`, or "".
Finding judge_silent_daemon(const std::string& fault, std::string_view unit);

struct LocalDisk {
  std::uint64_t type = 0;  // statfs(2)
  std::uint64_t free_bytes = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t free_inodes = 0;
};
std::vector<Finding> judge_disk(const LocalDisk& disk, const DaemonAbout& about);

// What the running daemon's workers have met.
Finding judge_sandbox(const DaemonAbout& about);
Finding judge_openat2(bool has_openat2);
Finding judge_cgroups(const DaemonAbout& about);

}  // namespace nodestage
