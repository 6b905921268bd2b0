// The judgments of `nodestage doctor` on this node: its programs, its daemon, its local disk, and
// what its workers can do. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/doctor/finding.hpp"
#include "common/wire/daemon_about.hpp"

namespace nodestage {

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
