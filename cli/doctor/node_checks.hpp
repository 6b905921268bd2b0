// The judgments of `nodestage doctor` on this node: its programs, its daemon, its local disk, and
// what its workers can do. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/doctor/plugstack.hpp"
#include "common/settings/config.hpp"
#include "common/wire/daemon_about.hpp"
#include "common/wire/protocol.hpp"

namespace nodestage {

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

// Judges how the notes between a job's nodes are proved. cluster_nodes: 0 if not known. Empty for a
// daemon of an older release, and where the barrier is off.
std::vector<Finding> judge_credentials(const CredentialState& state, std::size_t cluster_nodes);

// Returns what this build lacks and this host has.
std::vector<Finding> judge_build(bool with_systemd, bool runs_systemd);
Finding judge_cgroups(const DaemonAbout& about);

}  // namespace nodestage
