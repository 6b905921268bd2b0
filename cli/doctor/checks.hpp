// The judgments of `nodestage doctor` on Slurm (its configuration, the plugin, and slurmd), and on
// this node: its programs, its daemon, its local disk, and what its workers can do. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/doctor/plugstack.hpp"
#include "cli/doctor/version_text.hpp"
#include "cli/slurm/node_jobs.hpp"
#include "common/settings/config.hpp"
#include "common/settings/plugin_settings.hpp"
#include "common/wire/daemon_about.hpp"
#include "common/wire/protocol.hpp"

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

// The judgments of `nodestage doctor` on this node: its programs, its daemon, its local disk, and
// what its workers can do. Pure.

// Finds out which TCP ports of this host are free.
struct FreePorts {
  std::size_t tried = 0;
  std::size_t free = 0;
  std::string fault;  // why the last one that is not free is not; "" if all are
};

// Binds each port of the range for a moment, on all addresses. Listens on none.
FreePorts find_free_ports(std::uint16_t first, std::uint16_t last);

// "" or 0 stand for no such program or file. `command` is this command's version.
Finding judge_versions(const std::string& command, const std::string& daemon,
                       std::uint32_t plugin_version);

// Judges a daemon that does not answer, by `fault` and `systemctl show nodestaged` (or "").
Finding judge_silent_daemon(const std::string& fault, std::string_view unit);

// Lists the jobs that wait to be staged, of those that the daemon knows; ok. None: no job waits.
// Has names of users' data.
std::optional<Finding> list_queued(const std::vector<StatusRow>& jobs);

struct LocalDisk {
  std::uint64_t type = 0;  // statfs(2)
  std::uint64_t free_bytes = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t free_inodes = 0;
  bool is_noexec = false;    // no program on it can be started
  bool is_listable = false;  // by every user
};
std::vector<Finding> judge_disk(const LocalDisk& disk, const DaemonAbout& about);

// Returns SlurmdSpoolDir with its patterns (slurm.conf(5)) replaced.
std::string spool_path(std::string pattern, const std::string& node, const std::string& host);
Finding judge_spool(const std::string& path, std::uint32_t mode);

// The directory of shared items beside the job directories, as fstatat(2) shows it.
struct CacheDirectory {
  std::string path;
  std::uint32_t mode = 0;
  std::uint32_t uid = 0;
};
Finding judge_cache_directory(const CacheDirectory& directory);
// Returns whether anything can be kept there. Nothing to say where nothing is to be kept.
std::vector<Finding> judge_keep_free(const LocalDisk& disk, const Config::Cache& settings);

// What is at memory.path.
struct MemoryLocation {
  bool is_there = false;  // the rest counts only then
  std::uint64_t type = 0;
  bool is_changed_by_root_only = false;
  std::uint32_t uid = 0;  // of .nodestage-memory in it; 0 where nothing has that name
};

MemoryLocation memory_place(const std::string& path);

// Judges where datasets with in=memory lie. logind: what `loginctl show-session
// --property=RemoveIPC` prints, empty where logind does not run. Nothing to say where in=memory is
// refused by the settings.
std::vector<Finding> judge_memory(const std::string& path, const MemoryLocation& place,
                                  std::string_view logind);

// The ports on which a job's relay process can listen.
Finding judge_relay_ports(const PortRange& range, const FreePorts& ports);

// Returns what the running daemon's workers reported.
Finding judge_sandbox(const DaemonAbout& about);
Finding judge_openat2(bool has_openat2);
// `fault`: why /dev/fuse cannot be opened.
Finding judge_fuse(const std::optional<std::string>& fault);

// Judges how the notes between a job's nodes are proved. cluster_nodes: 0 if not known. Empty for a
// daemon of an older release, and where the barrier is off.
std::vector<Finding> judge_credentials(const CredentialState& state, std::size_t cluster_nodes);

// Returns what this build lacks and this host has.
std::vector<Finding> judge_build(bool with_systemd, bool runs_systemd);
Finding judge_cgroups(const DaemonAbout& about);

}  // namespace nodestage
