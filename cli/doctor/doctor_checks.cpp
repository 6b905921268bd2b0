#include "cli/doctor/doctor_checks.hpp"

#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <sstream>

#include "common/build_info.hpp"
#include "common/os/file.hpp"
#include "common/text/human.hpp"
#include "common/text/parsing.hpp"

namespace nodestage {
namespace {

constexpr const char* k_plugin_name = "spank_nodestage.so";
constexpr unsigned k_deepest_include = 8;
// The plugin leaves this much of PrologEpilogTimeout.
constexpr std::uint64_t k_epilog_margin_s = 15;
constexpr std::uint64_t k_no_timeout = 65534;

Finding ok(std::string what) { return {Grade::ok, std::move(what), ""}; }
Finding warning(std::string what, std::string to_do) {
  return {Grade::warning, std::move(what), std::move(to_do)};
}
Finding problem(std::string what, std::string to_do) {
  return {Grade::problem, std::move(what), std::move(to_do)};
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::string value_of(const SlurmConfig& config, const std::string& name) {
  const auto found = config.find(name);
  return found == config.end() || found->second == "(null)" ? "" : found->second;
}

// "10 sec", "65534", "" .
std::uint64_t number_of(std::string_view text) {
  return take_number<std::uint64_t>(text).value_or(0);
}

std::string release_text(std::uint32_t version) {
  const std::string minor = std::to_string(version >> 8 & 255);
  return std::to_string(version >> 16) + "." + (minor.size() < 2 ? "0" : "") + minor;
}

std::string version_text(std::uint32_t number) {
  return std::to_string(number / 1'000'000) + "." + std::to_string(number / 1000 % 1000) + "." +
         std::to_string(number % 1000);
}

bool is_later(const timespec& a, const timespec& b) {
  return a.tv_sec != b.tv_sec ? a.tv_sec > b.tv_sec : a.tv_nsec > b.tv_nsec;
}

bool is_below(const std::string& path, std::string directory) {
  while (directory.size() > 1 && directory.ends_with('/')) directory.pop_back();
  return path == directory || directory == "/" || path.starts_with(directory + "/");
}

std::string directory_of(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream words(line.substr(0, line.find('#')));
  std::vector<std::string> list;
  for (std::string word; words >> word;) list.push_back(word);
  return list;
}

std::vector<std::string> files_like(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> files;
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0)
    files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  return files;
}

Result<std::optional<PlugstackLine>> find_line(const std::string& path, unsigned depth) {
  TRY_ASSIGN(const Fd fd, open_at(AT_FDCWD, path, O_RDONLY));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return system_error(path);
  TRY_ASSIGN(const std::string text, read_all(fd.get(), 1 << 20));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> words = words_of(line);
    if (words.size() < 2) continue;
    if (words[0] == "include" && depth < k_deepest_include) {
      const std::string pattern = (words[1][0] == '/' ? "" : directory_of(path)) + words[1];
      for (const std::string& file : files_like(pattern)) {
        TRY_ASSIGN(auto found, find_line(file, depth + 1));
        if (found) return found;
      }
    } else if (words[1].substr(words[1].rfind('/') + 1) == k_plugin_name) {
      return std::optional<PlugstackLine>(
          {path, words[0] == "required", words[1], {words.begin() + 2, words.end()}, info.st_ctim});
    }
  }
  return std::optional<PlugstackLine>{};
}

struct FileSystem {
  std::uint64_t type;
  const char* name;
  enum { local, memory, shared, fuse } kind;
};
constexpr FileSystem k_file_systems[] = {
    {0xEF53, "ext4", FileSystem::local},        {0x58465342, "xfs", FileSystem::local},
    {0x9123683E, "btrfs", FileSystem::local},   {0x2FC12FC1, "zfs", FileSystem::local},
    {0x794C7630, "overlay", FileSystem::local}, {0x01021994, "tmpfs", FileSystem::memory},
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

// Each value of KEY= in job_container.conf.
std::vector<std::string> values_in(std::string_view conf, const std::string& key) {
  std::vector<std::string> values;
  std::istringstream lines{std::string(conf)};
  for (std::string line; std::getline(lines, line);) {
    for (const std::string& word : words_of(line)) {
      const std::size_t equals = word.find('=');
      if (equals == std::string::npos || lower(word.substr(0, equals)) != lower(key)) continue;
      std::istringstream parts(word.substr(equals + 1));
      for (std::string part; std::getline(parts, part, ',');) values.push_back(part);
    }
  }
  return values;
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
  auto wait = static_cast<std::uint64_t>(settings.epilog_wait.count());
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
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    const std::size_t equals = line.find('=');
    if (equals != std::string::npos)
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

Finding judge_plugin(const PluginFile& plugin, std::uint32_t slurm_release) {
  const std::string is_for = plugin.path + " is for Slurm " + release_text(plugin.slurm_version);
  if (slurm_release == 0)
    return warning(is_for + "; this host's Slurm does not report its version",
                   "See scontrol --version.");
  if (plugin.slurm_version >> 8 == slurm_release >> 8) return ok(is_for + ", as is this host's");
  return problem(
      is_for + ", but this host's is " + release_text(slurm_release),
      "Install the package that was built for Slurm " + release_text(slurm_release) + ".");
}

Result<std::optional<PlugstackLine>> plugstack_line(const std::string& path) {
  return find_line(path, 0);
}

Finding judge_line(const std::optional<PlugstackLine>& line, const std::string& plugstack) {
  if (!line)
    return problem(
        "no line for " + std::string(k_plugin_name) + " in " + plugstack + " or what it includes",
        "Add `include plugstack.conf.d/*.conf` to " + plugstack + ", or the line `required " +
            k_plugin_name + "`.");
  if (line->is_required) return ok("the plugin is `required` in " + line->file);
  return problem(
      "the plugin is `optional` in " + line->file + ": jobs would start without their data",
      "Write `required` there.");
}

std::vector<Finding> judge_arguments(const PlugstackLine& line, const PluginSettings& settings) {
  std::vector<Finding> findings;
  for (const std::string& complaint : settings.complaints) {
    findings.push_back(warning(complaint + " (" + line.file + ")",
                               "The default is used until this is corrected."));
  }
  return findings;
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
  if (config.count("EpilogTimeout") > 0)  // from Slurm 26.05 on
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

Finding judge_private_tmp(const SlurmConfig& config, std::string_view container_conf,
                          const std::string& tmpdir_root) {
  std::string type = value_of(config, "JobContainerType");
  if (type.empty()) type = value_of(config, "NamespaceType");
  if (type.find("tmpfs") == std::string::npos) return ok("no private /tmp");
  std::vector<std::string> hidden = values_in(container_conf, "Dirs");
  if (hidden.empty()) hidden = {"/tmp", "/dev/shm"};
  for (const std::string& base : values_in(container_conf, "BasePath")) hidden.push_back(base);
  if (tmpdir_root.empty())
    return warning(
        "private /tmp (" + type + "); the daemon does not report where job directories are",
        "tmpdir.path must be outside BasePath and Dirs.");
  for (const std::string& directory : hidden) {
    if (!is_below(tmpdir_root, directory)) continue;
    std::string what = "private /tmp (" + type + "): job directories in ";
    what.append(tmpdir_root).append(" are hidden from jobs by ").append(directory);
    return problem(std::move(what),
                   "Set tmpdir.path to a directory outside of it (nodestaged.toml).");
  }
  return ok("private /tmp (" + type + "); job directories are outside of it");
}

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
  return findings;
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
