#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <vector>

#include "cli/base/conversation.hpp"
#include "cli/base/verbs.hpp"
#include "cli/doctor/bug_report.hpp"
#include "cli/doctor/checks.hpp"
#include "cli/doctor/plugstack.hpp"
#include "cli/doctor/version_text.hpp"
#include "cli/process/programs.hpp"
#include "cli/slurm/node_jobs.hpp"
#include "cli/slurm/slurm_job.hpp"
#include "common/build_info.hpp"
#include "common/os/child.hpp"
#include "common/os/file.hpp"
#include "common/talk/task_voice.hpp"
#include "common/text/human.hpp"
#include "common/wire/daemon_client.hpp"

namespace nodestage {
namespace {

constexpr const char* k_default_slurm_conf = "/etc/slurm/slurm.conf";

class Report {
 public:
  void add(const Finding& finding) {
    findings_.push_back(finding);
    show(finding);
  }
  // Leaves it out of findings(), and so out of a report for a bug: it has names of users' data.
  void show(const Finding& finding) {
    static constexpr const char* k_names[] = {"ok     ", "warning", "problem"};
    static constexpr Ink k_inks[] = {Ink::plain, Ink::yellow, Ink::red};
    const auto grade = static_cast<std::size_t>(finding.grade);
    ++counts_[grade];
    const std::string name = inked(k_names[grade], has_colour_ ? k_inks[grade] : Ink::plain);
    std::printf("%s  %s\n", name.c_str(), printable(finding.what).c_str());
    if (!finding.to_do.empty()) std::printf("         -> %s\n", finding.to_do.c_str());
  }
  void add(const std::vector<Finding>& findings) {
    for (const Finding& finding : findings) add(finding);
  }
  [[nodiscard]] int close() const {
    std::printf("problems: %u, warnings: %u\n", counts_[2], counts_[1]);
    return counts_[2] == 0 ? 0 : k_fault;
  }
  [[nodiscard]] const std::vector<Finding>& findings() const { return findings_; }

 private:
  std::vector<Finding> findings_;
  unsigned counts_[3] = {};
  bool has_colour_ = shows_colour();
};

// What a program prints to stdout and stderr.
std::string output_of(std::vector<std::string> words) {
  const ProgramEnd end = run_program({std::move(words), {}, {}});
  return end.output + end.errors;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// When a process started, in wall-clock time.
std::optional<timespec> begin_of(const std::string& pid) {
  const std::uint64_t ticks = start_ticks_of(pid);
  if (ticks == 0) return {};
  timespec now{};
  timespec up{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  ::clock_gettime(CLOCK_BOOTTIME, &up);
  const auto nanoseconds = [](const timespec& time) {
    return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
  };
  const auto a_second = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  const std::int64_t age =
      nanoseconds(up) - static_cast<std::int64_t>(ticks * (1'000'000'000 / a_second));
  const std::int64_t begun = nanoseconds(now) - age;
  return timespec{begun / 1'000'000'000, begun % 1'000'000'000};
}

// The process name is the program's: Debian's is slurmd-wlm, which is also the name of a slurmd
// that restarted itself (`scontrol reconfigure` since Slurm 24.05).
bool is_slurmd(const std::string& pid) {
  struct stat owner {};
  if (::stat(("/proc/" + pid).c_str(), &owner) != 0 || owner.st_uid != 0) return false;
  const auto name = read_file(AT_FDCWD, "/proc/" + pid + "/comm", 64);
  return name && (*name == "slurmd\n" || name->starts_with("slurmd-"));
}

// Returns the start of this host's longest-running slurmd.
std::optional<timespec> begin_of_slurmd() {
  std::optional<timespec> begun;
  auto processes = DirectoryStream::at(AT_FDCWD, "/proc");
  while (const auto name = processes.next()) {
    const std::string pid(*name);
    if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
    if (!is_slurmd(pid)) continue;
    const auto found = begin_of(pid);
    if (found && (!begun || found->tv_sec < begun->tv_sec)) begun = found;
  }
  return begun;
}

bool starts_at_boot(const char* unit) {
  const std::string wanted = "/etc/systemd/system/multi-user.target.wants/";
  return ::faccessat(AT_FDCWD, (wanted + unit).c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

std::string value_or(const SlurmConfig& config, const char* name, const char* otherwise) {
  const auto found = config.find(name);
  return found == config.end() || found->second.empty() || found->second == "(null)"
             ? otherwise
             : found->second;
}

class Doctor {
 public:
  explicit Doctor(const DoctorArguments& arguments)
      : arguments_(arguments), slurmd_begun_(begin_of_slurmd()) {
    node_ = find_node(nodes_, node_name());
    const std::string why = find_kind();
    std::printf(
        "This host is examined as a %s node%s (--host=login or --host=compute changes "
        "that).\n",
        is_node_ ? "compute" : "login", why.c_str());
  }

  int run() {
    ask_slurm();
    if (is_node_) report_.add(judge_node_state(node_));
    look_at_plugin();
    if (is_node_) look_at_daemon();
    report_.add(judge_versions(k_version, about_.version, plugin_ ? plugin_->version : 0));
    look_at_config();
    if (is_node_) look_at_node();
    const int code = report_.close();
    return arguments_.report.empty() ? code : std::max(code, write_bug_report());
  }

 private:
  // Sets is_node_, and returns why. A service can be enabled where Slurm has no node: packages do
  // that.
  std::string find_kind() {
    is_node_ = arguments_.host == "compute";
    if (!arguments_.host.empty()) return "";
    is_node_ = slurmd_begun_.has_value() || node_ != nullptr;
    if (slurmd_begun_) return ": slurmd runs here";
    if (node_ != nullptr) return ": Slurm has a node of its name";
    if (!nodes_.empty()) return ": Slurm has no node of its name";
    is_node_ = starts_at_boot("slurmd.service") || starts_at_boot("nodestaged.service");
    return "";
  }

  void ask_slurm() {
    const std::string text = output_of({"scontrol", "show", "config"});
    config_ = parse_slurm_config(text);
    if (config_.count("PrologFlags") == 0) {
      config_.clear();
      report_.add(
          problem("Slurm's configuration cannot be read: " + first_line(text),
                  "`scontrol show config` must work here; the checks of its output are skipped."));
    }
    slurm_release_ = slurm_release_of(output_of({"scontrol", "--version"}));
  }

  // Nobody may submit from a controller, which itself loads no plugin.
  void add_missing(Finding finding) {
    if (!is_node_ && is_controller(config_, node_name()))
      finding.to_do += " On a controller from which nobody submits jobs, nothing is missing.";
    report_.add(finding);
  }

  void look_at_plugin() {
    const std::string plugstack = value_or(config_, "PlugStackConfig", k_default_plugstack);
    const auto lines = plugstack_lines(plugstack);
    if (!lines) {
      return add_missing(
          problem(lines.error().text(),
                  "Slurm's commands on this host load no plugin: create plugstack.conf."));
    }
    const auto own = own_line(*lines);
    if (own != lines->end()) {
      line_ = *own;
      earlier_.assign(lines->begin(), own);
    }
    const Finding line = judge_line(line_, plugstack);
    line_ ? report_.add(line) : add_missing(line);
    auto plugin =
        read_plugin_file(plugin_path(line_ ? line_->plugin : k_plugin_name, plugin_directory()));
    if (!plugin) {
      return report_.add(
          problem(plugin.error().text(),
                  "Install the package; until then a `required` line breaks every Slurm "
                  "command on this host."));
    }
    report_.add(judge_plugin(*plugin, slurm_release_));
    plugin_ = std::move(*plugin);
    if (!line_) return;
    std::vector<char*> arguments;
    for (std::string& argument : line_->arguments) arguments.push_back(argument.data());
    settings_ = parse_settings(arguments);
    report_.add(judge_arguments(*line_, settings_));
    if (is_node_) look_at_slurmd();
  }

  [[nodiscard]] std::string plugin_directory() const {
    return value_or(config_, "PluginDir", NODESTAGE_PLUGIN_DIR);
  }

  void look_at_slurmd() {
    if (!slurmd_begun_) {
      return report_.add(problem("slurmd is not running", "systemctl status slurmd"));
    }
    report_.add(judge_slurmd(*slurmd_begun_, *plugin_, *line_));
  }

  // If --socket is the default, the socket in the plugin's line counts.
  void look_at_daemon() {
    std::string socket = arguments_.socket;
    if (socket == k_socket_path && !settings_.socket.empty()) socket = settings_.socket;
    std::vector<StatusRow> jobs;
    const auto asked = [&]() -> Status {
      TRY_ASSIGN(DaemonConnection daemon, DaemonConnection::open(socket));
      TRY(daemon.send(StatusQuery{}, Clock::now() + k_daemon_wait));
      while (true) {
        TRY_ASSIGN(const Message answer, daemon.receive(Clock::now() + k_daemon_wait));
        if (const auto* job = std::get_if<StatusRow>(&answer)) jobs.push_back(*job);
        if (role_of(answer) != MessageRole::part) return {};
      }
    }();
    if (!asked) {
      report_.add(judge_silent_daemon(
          asked.error().text(), output_of({"systemctl", "show", "nodestaged",
                                           "--property=ActiveState,ExecMainStatus,NRestarts"})));
      return;
    }
    report_.add(ok("nodestaged answers at " + socket));
    if (const auto queued = list_queued(jobs)) report_.show(*queued);
    const auto about = read_file(AT_FDCWD, socket.substr(0, socket.rfind('/')) + "/about", 65536);
    if (about) about_ = decode_about(*about);
  }

  void look_at_config() {
    if (config_.empty()) return;
    report_.add(judge_prolog_flags(config_));
    report_.add(judge_batch_start(config_, settings_));
    report_.add(judge_time_limits(config_, settings_, about_.epilog_wait_s));
    report_.add(judge_proctrack(config_));
    if (!is_node_) return;
    look_at_spool();
    report_.add(judge_power(config_));
    report_.add(judge_earlier_epilogs(earlier_, plugin_directory(), about_.tmpdir_root));
    report_.add(judge_scripts(config_, about_.tmpdir_root));
    const std::string slurm_conf = value_or(config_, "SLURM_CONF", k_default_slurm_conf);
    const std::string directory = slurm_conf.substr(0, slurm_conf.rfind('/') + 1);
    const auto private_tmp = read_file(AT_FDCWD, directory + private_tmp_file(config_), 1 << 20);
    report_.add(
        judge_private_tmp(config_, private_tmp ? *private_tmp : std::string(), about_.tmpdir_root));
  }

  void look_at_spool() {
    const std::string host = node_name();
    const std::string path =
        spool_path(value_or(config_, "SlurmdSpoolDir", ""), node_ == nullptr ? host : node_->name,
                   host.substr(0, host.find('.')));
    struct stat info {};
    if (::stat(path.c_str(), &info) == 0) report_.add(judge_spool(path, info.st_mode));
  }

  void look_at_node() {
    report_.add(
        judge_build(k_with_systemd, ::access("/run/systemd/system", F_OK) == 0));  // sd_booted(3)
    if (!daemon_ && daemon_.error().code == EINVAL)
      report_.add(problem("nodestaged refuses its settings: " + daemon_.error().what,
                          "Mend the file; nodestaged --check looks at it."));
    if (!about_.tmpdir_root.empty()) {
      look_at_disk();
      look_at_memory();
      report_.add(judge_cgroups(about_));
      report_.add(judge_sandbox(about_));
      look_at_peers();
    }
    report_.add(judge_openat2(has_openat2()));
    report_.add(judge_fuse(fuse_fault()));
  }

  // Only root may need to open it.
  static std::optional<std::string> fuse_fault() {
    const auto fuse = open_at(AT_FDCWD, "/dev/fuse", O_RDWR);
    if (fuse || fuse.error().code == EACCES) return std::nullopt;
    return fuse.error().what;
  }

  static bool is_listable(const char* path) {
    struct stat info {};
    return ::stat(path, &info) == 0 && (info.st_mode & S_IROTH) != 0;
  }

  void look_at_disk() {
    struct statfs type {};
    struct statvfs space {};
    const char* root = about_.tmpdir_root.c_str();
    if (::statfs(root, &type) != 0 || ::statvfs(root, &space) != 0) {
      report_.add(
          problem(system_error(about_.tmpdir_root).what,
                  "tmpdir.path in nodestaged.toml must name an existing directory of root."));
      return;
    }
    const LocalDisk disk{static_cast<std::uint64_t>(type.f_type), space.f_bavail * space.f_frsize,
                         space.f_blocks * space.f_frsize,         space.f_favail,
                         (space.f_flag & ST_NOEXEC) != 0,         is_listable(root)};
    report_.add(judge_disk(disk, about_));
    look_at_cache(disk);
  }

  void look_at_cache(const LocalDisk& disk) {
    const std::string path = about_.tmpdir_root + "/.nodestage-cache";
    struct stat info {};
    // A daemon of an older release has none.
    if (::lstat(path.c_str(), &info) != 0) return;
    report_.add(judge_cache_directory({path, info.st_mode, info.st_uid}));
    if (daemon_) report_.add(judge_keep_free(disk, daemon_->cache));
  }

  void look_at_memory() {
    if (!daemon_) return;
    const std::string& path = daemon_->memory.path;
    report_.add(judge_memory(path, memory_place(path),
                             output_of({"loginctl", "show-session", "--property=RemoveIPC"})));
  }

  void look_at_peers() {
    report_.add(judge_credentials(about_.credentials, nodes_.size()));
    // Without credentials no daemon passes anything on.
    if (about_.credentials.kind != CredentialState::Kind::holds || !daemon_ ||
        !relays_sources(*daemon_))
      return;
    const PortRange& range = daemon_->relay.ports;
    report_.add(judge_relay_ports(range, find_free_ports(range.first, range.last)));
  }

  int write_bug_report() {
    PrivateNames names = names_here();
    names.paths.push_back(about_.tmpdir_root);
    for (std::string& host : hosts_in(config_)) names.hosts.push_back(std::move(host));
    const auto conf =
        read_file(AT_FDCWD, value_or(config_, "SLURM_CONF", k_default_slurm_conf), 1 << 20);
    for (std::string& host : hosts_in_file(conf ? *conf : std::string()))
      names.hosts.push_back(std::move(host));
    Redactor redactor(std::move(names));
    const std::string text = bug_report_text(facts_for_report(), redactor);
    const auto written = [&]() -> Status {
      TRY_ASSIGN(const Fd fd,
                 open_at(AT_FDCWD, arguments_.report, O_WRONLY | O_CREAT | O_TRUNC, 0666));
      return write_all(fd.get(), text);
    }();
    if (!written) return fault(written.error().text(), "Name another FILE: --report=FILE");
    std::printf("report for a bug: %s (read it before you send it)\n",
                printable(arguments_.report).c_str());
    return 0;
  }

  BugReport facts_for_report() {
    const auto text_of = [](const char* path) {
      const auto text = read_file(AT_FDCWD, path, 1 << 20);
      return text ? *text : std::string();
    };
    BugReport facts{version_facts(),
                    system_name(text_of("/etc/os-release")),
                    about_.version,
                    "",
                    report_.findings(),
                    "(cannot be read)\n",
                    config_,
                    line_};
    if (!about_.tmpdir_root.empty())
      facts.tmpdir_type = file_system_of(about_.tmpdir_root, text_of("/proc/self/mounts"));
    if (const auto settings = read_file(AT_FDCWD, k_config_path, 1 << 20))
      facts.settings = settings_text(*settings);
    return facts;
  }

  const DoctorArguments& arguments_;
  std::vector<SlurmNode> nodes_ = list_nodes(Partitions::all);
  const SlurmNode* node_ = nullptr;  // this host's
  std::optional<timespec> slurmd_begun_;
  bool is_node_ = false;
  Report report_;
  SlurmConfig config_;
  std::uint32_t slurm_release_ = 0;
  std::optional<PlugstackLine> line_;
  std::vector<PlugstackLine> earlier_;  // before it
  std::optional<PluginFile> plugin_;
  PluginSettings settings_ = parse_settings({});
  DaemonAbout about_;
  Result<Config> daemon_ = load_config(k_config_path);
};

}  // namespace

int examine_host(const DoctorArguments& arguments) { return Doctor(arguments).run(); }

}  // namespace nodestage
