// The judgments of `nodestage doctor` on Slurm: its configuration, the plugin, and slurmd. Pure.
#pragma once

#include <cstdint>
#include <ctime>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli/base/node_jobs.hpp"
#include "cli/doctor/plugstack.hpp"
#include "cli/doctor/version_text.hpp"
#include "common/settings/plugin_settings.hpp"

namespace nodestage {

// The output of `scontrol show config`: values by name.
using SlurmConfig = std::map<std::string, std::string>;
SlurmConfig parse_slurm_config(std::string_view text);

// Returns the release in "slurm-wlm 22.05.8", encoded as in Slurm's plugins, without the micro
// version; 0 if there is none.
std::uint32_t slurm_release_of(std::string_view text);

// Returns whether the controller runs on the host of this name, or would take over there.
bool is_controller(const SlurmConfig& config, const std::string& host);

// The state of this host's node; null: Slurm has none.
std::vector<Finding> judge_node_state(const SlurmNode* node);

Finding judge_plugin(const PluginFile& plugin, std::uint32_t slurm_release);

// Returns whether a slurmd that started at `begun` has loaded the plugin and its line.
Finding judge_slurmd(const timespec& begun, const PluginFile& plugin, const PlugstackLine& line);

Finding judge_prolog_flags(const SlurmConfig& config);
Finding judge_batch_start(const SlurmConfig& config, const PluginSettings& settings);
// Slurm's time limits for prologs and epilogs. epilog_wait_s: the daemon's setting; 0: not known.
std::vector<Finding> judge_time_limits(const SlurmConfig& config, const PluginSettings& settings,
                                       std::uint64_t epilog_wait_s);
Finding judge_proctrack(const SlurmConfig& config);
// Finds out whether Slurm switches off nodes that hold results. Empty if it switches off none.
std::vector<Finding> judge_power(const SlurmConfig& config);
// Returns the file beside slurm.conf that says how a private /tmp is made.
std::string private_tmp_file(const SlurmConfig& config);
// `conf` has the contents of that file; tmpdir_root is "" if not known.
Finding judge_private_tmp(const SlurmConfig& config, std::string_view conf,
                          const std::string& tmpdir_root);

// The judgments of `nodestage doctor` on what a site itself does with job directories: plugins that
// are listed earlier, and the scripts that slurm.conf names.

// Names the plugins in front of nodestage's whose files, which it reads, export an epilog; Slurm
// calls epilogs in the order of the lines. Looks their names up in `plugin_directory`.
std::vector<Finding> judge_earlier_epilogs(const std::vector<PlugstackLine>& earlier,
                                           const std::string& plugin_directory,
                                           const std::string& tmpdir_root);

// Returns the scripts of Prolog, Epilog, and TaskProlog that name the place of job directories.
// Reads the scripts. tmpdir_root: "" if not known.
std::vector<Finding> judge_scripts(const SlurmConfig& config, const std::string& tmpdir_root);

}  // namespace nodestage
