#include <linux/magic.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cli/doctor/checks.hpp"
#include "cli/doctor/plugstack.hpp"
#include "common/os/file.hpp"
#include "common/os/permissions.hpp"
#include "common/text/human.hpp"
#include "common/wire/node_report.hpp"

namespace nodestage {
namespace {

template <typename Address>
int bind_fault(int family, const Address& address) {
  const Fd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return errno;
  const int on = 1;
  // Connections that have ended lately do not hinder a process that listens.
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  return ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? 0
                                                                                            : errno;
}

// 0, or the errno. An IPv6 socket takes the port of IPv4, too.
int port_fault(std::uint16_t port) {
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  const int fault = bind_fault(AF_INET6, v6);
  if (fault != EAFNOSUPPORT && fault != EADDRNOTAVAIL) return fault;
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  return bind_fault(AF_INET, v4);
}

}  // namespace

FreePorts find_free_ports(std::uint16_t first, std::uint16_t last) {
  FreePorts ports;
  for (std::uint32_t port = first; port <= last; ++port) {
    const int fault = port_fault(static_cast<std::uint16_t>(port));
    ++ports.tried;
    if (fault == 0)
      ++ports.free;
    else
      ports.fault = std::strerror(fault);
  }
  return ports;
}

namespace {

using namespace std::string_literals;

std::string version_text(std::uint32_t number) {
  return std::to_string(number / 1'000'000) + "." + std::to_string(number / 1000 % 1000) + "." +
         std::to_string(number % 1000);
}

struct FileSystem {
  std::uint64_t type;
  const char* name;
  enum { local, memory, shared, fuse } kind;
};
constexpr FileSystem k_file_systems[] = {
    {0xEF53, "ext4", FileSystem::local},        {0x58465342, "xfs", FileSystem::local},
    {0x9123683E, "btrfs", FileSystem::local},   {0x2FC12FC1, "zfs", FileSystem::local},
    {0x794C7630, "overlay", FileSystem::local}, {TMPFS_MAGIC, "tmpfs", FileSystem::memory},
    {0x6969, "nfs", FileSystem::shared},        {0x0BD00BD0, "lustre", FileSystem::shared},
    {0x47504653, "gpfs", FileSystem::shared},   {0x19830326, "beegfs", FileSystem::shared},
    {0x00C36400, "ceph", FileSystem::shared},   {0xFF534D42, "cifs", FileSystem::shared},
    {0xFE534D42, "smb", FileSystem::shared},    {0x5346414F, "afs", FileSystem::shared},
    {0x01021997, "9p", FileSystem::shared},     {0x65735546, "fuse", FileSystem::fuse},
};

Finding judge_file_system(std::uint64_t type, const std::string& place) {
  for (const FileSystem& known : k_file_systems) {
    if (known.type != type) continue;
    const std::string what = "job directories are in " + place + ", on " + known.name;
    switch (known.kind) {
      case FileSystem::local:
        return ok(what);
      case FileSystem::memory:
        return warning(what + ", which is in memory",
                       "It is fast, but staged data takes memory from the jobs: limit its size.");
      case FileSystem::shared:
        return problem(what + ", which other nodes share",
                       "Set tmpdir.path to a local disk (nodestaged.toml).");
      case FileSystem::fuse:
        return warning(what,
                       "If this is not a local disk, set tmpdir.path to one (nodestaged.toml).");
    }
  }
  return ok("job directories are in " + place);
}

std::string held_lock(const std::string& directory, const std::string& harm) {
  return "every user can list " + directory +
         ": who reads it into memory of a file system that does not answer holds its lock, and " +
         harm;
}

}  // namespace

Finding judge_versions(const std::string& command, const std::string& daemon,
                       std::uint32_t plugin_version) {
  std::string what = "nodestage " + command;
  bool same = true;
  if (plugin_version != 0) {
    what += ", plugin " + version_text(plugin_version);
    same = same && version_text(plugin_version) == command;
  }
  if (!daemon.empty()) {
    what += ", running daemon " + daemon;
    same = same && daemon == command;
  }
  if (same) return ok(what);
  return problem(
      what + ": not the same release",
      "Install the same release of all; systemctl restart nodestaged (staging goes on).");
}

std::optional<Finding> list_queued(const std::vector<StatusRow>& jobs) {
  constexpr std::size_t k_most = 8;
  std::vector<std::string> queued;
  for (const StatusRow& job : jobs) {
    if (job.state == to_text(JobState::queued) && job.others.starts_with("waiting"))
      queued.push_back("job " + std::to_string(job.job) + " is " +
                       printable(job.others, Newlines::join));
  }
  if (queued.empty()) return {};
  const std::size_t more = queued.size() - std::min(queued.size(), k_most);
  queued.resize(queued.size() - more);
  return ok(joined(queued, "; ") + (more == 0 ? "" : "; and " + human_count(more) + " more"));
}

Finding judge_silent_daemon(const std::string& fault, std::string_view unit) {
  const std::string what = "nodestaged does not answer: " + fault;
  const auto one_of = [&unit](const char* name) {
    const auto values = values_in(unit, name);
    return values.empty() ? std::string() : values.front();
  };
  const std::string status = one_of("ExecMainStatus");
  const std::string restarts = one_of("NRestarts");
  const bool has_failed = one_of("ActiveState") == "failed";
  if (status == "219")
    return problem(what +
                       "; systemd cannot start it (status=219/CGROUP), since processes run "
                       "below its cgroup",
                   "systemd-cgls --unit nodestaged shows them. With the packaged units none do: "
                   "workers run in nodestage-workers.service. When they have exited: systemctl "
                   "reset-failed nodestaged; systemctl start nodestaged.");
  if (has_failed && status == "78")
    return problem(what + "; its configuration is wrong (status=78)",
                   "nodestaged --check names the line; then systemctl start nodestaged.");
  if (has_failed && !restarts.empty() && restarts != "0")
    return problem(what + "; it has exited repeatedly (status=" + status +
                       "), and systemd has given up after " + restarts +
                       " restarts (its start limit)",
                   "journalctl -u nodestaged shows why; then systemctl reset-failed nodestaged; "
                   "systemctl start nodestaged.");
  return problem(what,
                 "systemctl enable --now nodestaged; why it exited: journalctl -u nodestaged, "
                 "nodestaged --check.");
}

std::vector<Finding> judge_disk(const LocalDisk& disk, const DaemonAbout& about) {
  std::vector<Finding> findings = {judge_file_system(disk.type, about.tmpdir_root)};
  const std::string what =
      human_bytes(disk.free_bytes) + " of " + human_bytes(disk.size_bytes) + " are free there";
  const char* to_do = "See `nodestage held` as root, and what else is stored there.";
  if (disk.free_bytes <= about.leave_free_bytes) {
    findings.push_back(problem(what + ", no more than staging.leave_free (" +
                                   human_bytes(about.leave_free_bytes) + "): every job is refused",
                               to_do));
  } else if (disk.free_bytes < disk.size_bytes / 10 || disk.free_inodes == 0) {
    findings.push_back(warning(what + (disk.free_inodes == 0 ? ", but no inode is" : ""), to_do));
  } else {
    findings.push_back(ok(what));
  }
  if (disk.is_noexec)
    findings.push_back(
        warning("job directories are on a file system that is mounted noexec: no program and no "
                "compiled Python module in them can be used, nor a conda environment",
                "Mount it without noexec (mount -o remount,exec; fstab), unless your site wants "
                "that."));
  if (disk.is_listable)
    findings.push_back(
        warning(held_lock(about.tmpdir_root, "no job directory is made or removed meanwhile"),
                "chmod 711 " + about.tmpdir_root));
  return findings;
}

std::string spool_path(std::string pattern, const std::string& node, const std::string& host) {
  for (const auto& [mark, name] : {std::pair("%n", node), std::pair("%h", host)}) {
    for (std::size_t at = 0; (at = pattern.find(mark, at)) != std::string::npos; at += name.size())
      pattern.replace(at, 2, name);
  }
  return pattern;
}

Finding judge_spool(const std::string& path, std::uint32_t mode) {
  if ((mode & S_IROTH) == 0) return ok("users cannot list slurmd's spool, " + path);
  return warning(held_lock(path + " (SlurmdSpoolDir)", "slurmd starts and ends no job meanwhile"),
                 "slurmd sets that mode when it starts, so give its unit this line (systemctl edit "
                 "slurmd): ExecStartPost=+/bin/sh -c \"sleep 5; chmod 711 " +
                     path + "\"");
}

Finding judge_cache_directory(const CacheDirectory& directory) {
  const std::string& path = directory.path;
  std::string fault;
  if (!S_ISDIR(directory.mode))
    fault = " is not a directory";
  else if (directory.uid != 0)
    fault = " belongs to uid " + std::to_string(directory.uid) + ", not to root";
  else if ((directory.mode & 022) != 0)
    fault = " is writable by others than root";
  if (fault.empty()) return ok("shared items are kept in " + path);
  return problem(path + fault + ": nodestaged does not start with it",
                 "Move it away while no job uses it; then systemctl restart nodestaged, which "
                 "makes a new one.");
}

std::vector<Finding> judge_keep_free(const LocalDisk& disk, const Config::Cache& settings) {
  if (!settings.enabled || disk.size_bytes == 0) return {};
  const double percent =
      static_cast<double>(disk.free_bytes) * 100 / static_cast<double>(disk.size_bytes);
  const std::string free = std::to_string(static_cast<unsigned>(percent)) + "% are free there";
  const std::string least = std::to_string(settings.keep_free_percent) + "%";
  if (percent >= static_cast<double>(settings.keep_free_percent))
    return {ok(free + ", and cache.keep_free is " + least)};
  return {warning(free + ", less than cache.keep_free (" + least +
                      "): a shared item is removed as soon as no job uses it",
                  "Free space there, or set a lower cache.keep_free (nodestaged.toml).")};
}

MemoryLocation memory_place(const std::string& path) {
  struct stat top {};
  struct stat ours {};
  struct statfs file_system {};
  MemoryLocation place;
  place.is_there = ::stat(path.c_str(), &top) == 0 && S_ISDIR(top.st_mode) &&
                   ::statfs(path.c_str(), &file_system) == 0;
  place.type = static_cast<std::uint64_t>(file_system.f_type);
  place.is_changed_by_root_only = is_changed_by_owner_only(top, 0);
  if (::lstat((path + "/.nodestage-memory").c_str(), &ours) == 0) place.uid = ours.st_uid;
  return place;
}

std::vector<Finding> judge_memory(const std::string& path, const MemoryLocation& place,
                                  std::string_view logind) {
  if (path.empty()) return {};
  std::string fault;
  if (!place.is_there)
    fault = " is no directory";
  else if (place.type != TMPFS_MAGIC)
    fault = " is not on a tmpfs";
  else if (!place.is_changed_by_root_only)
    fault = std::string(" ") + k_root_only;
  else if (place.uid != 0)
    fault = "/.nodestage-memory belongs to uid " + std::to_string(place.uid) + ", not to root";
  if (!fault.empty())
    return {warning(path + fault + ": datasets with in=memory fail on this node",
                    "Name a tmpfs of root in [memory] path (nodestaged.toml), such as the "
                    "package's: systemctl enable --now var-lib-nodestage_memory.mount.")};
  // Slurm's own guide has pam_systemd removed from the nodes, and with it these sessions.
  const bool is_emptied =
      path.starts_with("/dev/shm") && values_in(logind, "RemoveIPC") == std::vector{"yes"s};
  return {ok("datasets with in=memory are in " + path +
             (is_emptied ? "; if users have login sessions of systemd-logind on this node, set "
                           "RemoveIPC=no, or their last logout removes them (docs/admin.md)"
                         : ""))};
}

Finding judge_relay_ports(const PortRange& range, const FreePorts& ports) {
  const std::string name =
      "relay.ports (" + std::to_string(range.first) + "-" + std::to_string(range.last) + ")";
  if (ports.free != 0)
    return ok(human_count(ports.free) + " of " + human_count(ports.tried) + " ports of " + name +
              " are free");
  return warning("no port of " + name + " is free (" + ports.fault +
                     "): jobs on this node pass no source on to their other nodes",
                 "ss -ltnp shows who listens there. Set relay.ports to a range that is free on all "
                 "nodes (nodestaged.toml), and open it between them; or relay.enabled = false.");
}

Finding judge_sandbox(const DaemonAbout& about) {
  const std::string& text = about.sandbox.text;
  const char* jobs_fail =
      about.sandbox_required ? "; jobs that stage fail here (worker.sandbox)" : "";
  switch (about.sandbox.kind) {
    case SandboxState::Kind::holds:
      return ok("workers confine themselves (Landlock, seccomp)");
    case SandboxState::Kind::lacking:
      return {
          about.sandbox_required ? Grade::problem : Grade::warning,
          "this kernel cannot confine workers in full: " + text + jobs_fail,
          "Landlock needs Linux 5.19 or later with lsm=...,landlock on its command line; system "
          "calls, CONFIG_SECCOMP_FILTER."};
    case SandboxState::Kind::fault:
      return problem("workers cannot enter their sandbox: " + text + jobs_fail,
                     "SystemCallFilter= of nodestaged.service must allow landlock_create_ruleset, "
                     "landlock_add_rule, landlock_restrict_self and seccomp: compare systemctl cat "
                     "nodestaged with the packaged unit.");
    case SandboxState::Kind::unknown:
      break;
  }
  return warning("the daemon has not reported yet whether its workers confine themselves",
                 "Try again later, or look for \"sandbox\" in its log.");
}

Finding judge_openat2(bool has_openat2) {
  return has_openat2 ? ok("openat2")
                     : problem("no openat2: workers and the daemon cannot open files safely",
                               "Linux 5.9 or later.");
}

Finding judge_fuse(const std::optional<std::string>& fault) {
  if (!fault) return ok("images can be mounted (FUSE)");
  return warning("images cannot be mounted (" + *fault + "): datasets with mount fail on this node",
                 "Load the kernel's module: modprobe fuse; and a file in /etc/modules-load.d with "
                 "that name.");
}

std::vector<Finding> judge_credentials(const CredentialState& state, std::size_t cluster_nodes) {
  const std::string without =
      ": the nodes of a job do not wait for each other, do not learn how the job ended, and do not "
      "pass sources on";
  const std::string to_do =
      "Start munged, or set peer.key_file (nodestaged.toml) to a key that is the same on all "
      "nodes. "
      "Set peer.barrier = \"off\" if no job has several nodes.";
  switch (state.kind) {
    case CredentialState::Kind::unknown:
    case CredentialState::Kind::off:
      return {};
    case CredentialState::Kind::holds:
      return {ok("notes between nodes have credentials by " + state.text +
                 ": one was made and opened here")};
    case CredentialState::Kind::fault:
      break;
  }
  const std::string what = "notes between nodes have no credentials (" + state.text + ")" + without;
  return {cluster_nodes == 1 ? warning(what, to_do) : problem(what, to_do)};
}

std::vector<Finding> judge_build(bool with_systemd, bool runs_systemd) {
  std::vector<Finding> findings;
  if (!with_systemd && runs_systemd) {
    findings.push_back(
        warning("nodestage was built without systemd, which runs on this host: nodestaged does not "
                "report to it, and there are no units",
                "Build it with -DNODESTAGE_SYSTEMD=ON."));
  }
  return findings;
}

Finding judge_cgroups(const DaemonAbout& about) {
  const std::string& missing = about.cgroups_missing;
  if (about.cgroups_in_unit)
    return problem(
        "workers run below nodestaged's own cgroup: while one runs, systemd cannot "
        "start nodestaged again (status=219/CGROUP)",
        "Install nodestage-workers.service, and nodestaged.service as it is packaged.");
  if (missing.empty()) return ok("workers have cgroups with all limits");
  if (missing == "off")
    return warning("workers have no cgroups (worker.cgroup = \"off\")",
                   "Set it to \"auto\" (nodestaged.toml).");
  return warning(
      "workers lack limits of: " + missing,
      "Enable these cgroup controllers, with Delegate=yes in nodestage-workers.service.");
}

}  // namespace nodestage
