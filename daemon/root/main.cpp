// nodestaged: the staging daemon, one per node.
//
// Inherits uid 0 and the capabilities of its systemd unit, which it needs to make directories for
// users and to start workers as them. Drops nothing itself: each worker drops everything before it
// touches what a user wrote (privileges.hpp). Serves the unix sockets until SIGTERM. On SIGHUP it
// reads the configuration again. Workers outlive it (nodestage-workers.service has their cgroups),
// and the next daemon takes them over. With --keep-cgroup it is the one process of that service and
// does nothing else (cgroup.hpp).
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <string>
#include <string_view>

#include "common/build_info.hpp"
#include "common/os/file.hpp"
#include "common/settings/config.hpp"
#include "common/wire/daemon_about.hpp"
#include "daemon/root/basis/log.hpp"
#include "daemon/root/basis/service_manager.hpp"
#include "daemon/root/basis/textfile.hpp"
#include "daemon/root/front/metrics_file.hpp"
#include "daemon/root/front/server.hpp"
#include "daemon/root/jobs/jobs.hpp"
#include "daemon/root/workers/cgroup.hpp"
#include "daemon/root/workers/workers.hpp"

namespace nodestage {
namespace {

struct Arguments {
  std::string config = k_config_path;
  bool check_only = false;
  std::string keep_cgroup;  // the file to write; "": run as the daemon
};

// sysexits.h's EX_CONFIG: systemd does not restart the daemon until somebody edits the
// configuration.
constexpr int k_wrong_config = 78;

constexpr int k_wrong_paths = 3;  // of --check: a path that the file names is not on this host

constexpr char k_usage[] =
    "Usage: nodestaged [--config FILE] [--check]\n"
    "The staging daemon of nodestage: one per node, started by systemd.\n\n"
    "  --config FILE   the configuration (default %s)\n"
    "  --check         check the configuration, and its paths on this host, and exit\n"
    "  --keep-cgroup FILE   keep the workers' cgroup (nodestage-workers.service)\n"
    "  --version       print the version and exit\n"
    "See nodestaged(8).\n";

// Returns the exit code when there is nothing more to do.
std::optional<int> parse_arguments(int argc, char** argv, Arguments& arguments) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--config" && i + 1 < argc) {
      arguments.config = argv[++i];
    } else if (argument == "--check") {
      arguments.check_only = true;
    } else if (argument == "--keep-cgroup" && i + 1 < argc) {
      arguments.keep_cgroup = argv[++i];
    } else if (argument == "--version") {
      std::printf("nodestaged %s\n", k_version);
      return 0;
    } else if (argument == "--help") {
      std::printf(k_usage, k_config_path);
      return 0;
    } else {
      std::fprintf(stderr, "nodestaged: unknown argument '%s'\n", argv[i]);
      std::fprintf(stderr, k_usage, k_config_path);
      return 2;
    }
  }
  return {};
}

// With tmpdir.create = "always" the plugin must ask the daemon for every job: this file says so.
Status mark_every_job(const Config& config, const std::string& runtime_dir) {
  const std::string path = runtime_dir + "/every-job";
  if (config.tmpdir.create != CreateDirectory::always) {
    ::unlink(path.c_str());
    return {};
  }
  TRY_ASSIGN(const Fd fd, open_at(AT_FDCWD, path, O_WRONLY | O_CREAT, 0644));
  return {};
}

// For `nodestage doctor` and `plan`: what this daemon found out about its node, with the settings.
void write_about(const Config& config, DaemonAbout about, const std::string& runtime_dir) {
  about.version = k_version;
  about.tmpdir_root = tmpdir_root(config);
  about.leave_free_bytes = config.staging.leave_free_bytes;
  about.epilog_wait_s = epilog_wait_of(config);
  about.sandbox_required = config.worker.sandbox == SandboxNeed::required;
  about.least_interval_s = config.stageout.least_interval_s;
  const Status written = replace_textfile(runtime_dir + "/about", encode_about(about));
  if (!written) log::error("{}", written.error().what);
}

// Takes over what may change while there are jobs. The rest needs a restart.
void take_over(Config& running, Config fresh) {
  if (fresh.tmpdir.path != running.tmpdir.path || fresh.daemon.socket != running.daemon.socket ||
      fresh.daemon.state_dir != running.daemon.state_dir ||
      fresh.memory.path != running.memory.path) {
    log::warn(
        "tmpdir.path, memory.path, daemon.socket and daemon.state_dir change with a restart only; "
        "the old values stay");
  }
  fresh.memory.path = running.memory.path;
  fresh.tmpdir.path = running.tmpdir.path;
  fresh.daemon.socket = running.daemon.socket;
  fresh.daemon.state_dir = running.daemon.state_dir;
  running = std::move(fresh);
}

// Whether it could be read.
bool reload(const std::string& path, Config& config, const std::string& runtime_dir) {
  auto fresh = load_config(path);
  if (!fresh) {
    log::error("the configuration is wrong and the old one stays: {}", fresh.error().what);
    return false;
  }
  take_over(config, std::move(*fresh));
  log::set_level(config.daemon.log_level);
  if (const Status marked = mark_every_job(config, runtime_dir); !marked)
    log::error("{}", marked.error().what);
  return true;
}

Result<Fd> block_signals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) ::sigaddset(&signals, signal);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  Fd fd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return system_error("signalfd");
  return fd;
}

// Uses the cgroup that nodestage-workers.service keeps or, without that service, the daemon's own.
Result<Cgroups> find_cgroups(const Config& config, const std::string& runtime_dir,
                             DaemonAbout& found) {
  if (config.worker.cgroup == UseCgroups::off) {
    found.cgroups_missing = "off";
    return Cgroups::none();
  }
  const std::string file = runtime_dir + "/worker-cgroup";
  auto kept = read_file(AT_FDCWD, file, 1 << 20);
  if (!kept && kept.error().code != ENOENT) return kept.error();
  const bool is_kept = static_cast<bool>(kept);
  if (!is_kept) kept = Cgroups::hand_on();
  if (!kept) return kept.error();
  TRY_ASSIGN(Cgroups cgroups, Cgroups::discover(*kept));
  if (is_kept && !cgroups.available())
    return Error{ENOENT, file +
                             " names a cgroup that does not exist (try: systemctl restart "
                             "nodestage-workers)"};
  found.cgroups_in_unit = !is_kept && ::getenv("INVOCATION_ID") != nullptr;  // systemd.exec(5)
  if (found.cgroups_in_unit) {
    log::warn(
        "workers run below this service's own cgroup: while one runs, systemd cannot start the "
        "service again (status 219). Start nodestage-workers.service to avoid that");
  }
  found.cgroups_missing = cgroups.missing();
  if (!cgroups.missing().empty()) {
    log::warn("workers run without these limits, since their cgroup controllers are missing: {}",
              cgroups.missing());
  }
  return cgroups;
}

// Raises this process's limit as far as possible and returns the share for connections. The rest
// remains for jobs.
std::size_t descriptors_for_connections(const Config& config) {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return config.daemon.max_connections;
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  const std::size_t all = files.rlim_cur;
  const std::size_t most =
      all - std::max<std::size_t>(all / 4, std::min<std::size_t>(all / 2, 256));
  if (most < config.daemon.max_connections)
    log::warn("at most {} connections can be open at once, since this process may open {} files",
              most, all);
  return most;
}

Status serve(const Arguments& arguments, Config& config) {
  const std::string runtime_dir = config.daemon.socket.substr(0, config.daemon.socket.rfind('/'));
  // As the plugin makes it (marker.cpp): users list nothing there.
  TRY(make_missing_directory(AT_FDCWD, runtime_dir, 0711));
  TRY_ASSIGN(const Fd signals, block_signals());
  TRY_ASSIGN(Loop loop, Loop::create());
  TRY_ASSIGN(Areas areas, Areas::open(tmpdir_root(config)));
  if (!config.memory.path.empty()) areas.open_memory(config.memory.path);
  if (!config.memory.path.empty() && !areas.memory_fault().empty())
    log::warn("memory.path cannot be used, so in=memory fails: {}", areas.memory_fault());
  TRY_ASSIGN(Journal journal, Journal::open(config.daemon.state_dir));
  DiskThread disk(loop);
  journal.sync_by(disk);
  DaemonAbout found;
  TRY_ASSIGN(Cgroups cgroups, find_cgroups(config, runtime_dir, found));
  write_about(config, found, runtime_dir);
  Workers workers(loop, std::move(cgroups));
  Trash trash(loop, areas, workers, config);
  Peers peers(loop, config);
  SlurmQuestion slurm(loop, config);
  Records records(config.daemon.state_dir, config);
  TRY(disk.start());
  Jobs jobs({loop, config, areas, journal, workers, trash, peers, slurm, records});
  Server server(loop, config, jobs, descriptors_for_connections(config));
  MetricsFile metrics(loop, config, [&jobs] { return jobs.metrics(); });
  TRY(server.listen(config.daemon.socket));
  TRY(mark_every_job(config, runtime_dir));
  peers.start(
      [&jobs](const PeerNote& note, const std::string& address) { jobs.take_note(note, address); },
      [&] {
        found.credentials = peers.credentials();
        write_about(config, found, runtime_dir);
      });
  jobs.recover();
  metrics.settings_changed();
  probe_sandbox(workers, config, runtime_dir, [&](const SandboxState& state) {
    found.sandbox = state;
    write_about(config, found, runtime_dir);
  });
  TRY(loop.watch(signals.get(), [&] {
    signalfd_siginfo info{};
    if (::read(signals.get(), &info, sizeof info) != sizeof info) return;
    if (info.ssi_signo != SIGHUP) return loop.stop();
    if (!reload(arguments.config, config, runtime_dir)) return;
    peers.settings_changed();
    jobs.settings_changed();
    metrics.settings_changed();
    write_about(config, found, runtime_dir);
    log::info("the configuration was read again from {}", arguments.config);
  }));
  log::info("nodestaged {} serves {}; job directories: {}", k_version, config.daemon.socket,
            config.tmpdir.path);
  notify_service_manager("READY=1");
  TRY(loop.run());
  notify_service_manager("STOPPING=1");
  log::info("stopped; workers keep running, and the next daemon takes them over");
  return {};
}

// The file itself has no fault.
int check_paths(const Arguments& arguments, const Config& config) {
  const std::vector<std::string> faults = faults_of_paths(config);
  for (const std::string& fault : faults)
    std::cerr << "nodestaged: " << arguments.config << ": " << fault << '\n';
  std::cout << arguments.config
            << (faults.empty() ? ": ok\n" : ": no wrong setting, but not for this host as it is\n");
  return faults.empty() ? 0 : k_wrong_paths;
}

int run(int argc, char** argv) {
  Arguments arguments;
  if (const auto code = parse_arguments(argc, argv, arguments)) return *code;
  if (!arguments.keep_cgroup.empty()) {
    const Status kept = keep_cgroup(arguments.keep_cgroup);
    if (kept) return 0;
    std::cerr << "nodestaged: " << kept.error().what << '\n';
    return 1;
  }
  auto config = load_config(arguments.config);
  if (!config) {
    std::cerr << "nodestaged: " << config.error().what << '\n';
    return arguments.check_only ? 1 : k_wrong_config;
  }
  if (arguments.check_only) return check_paths(arguments, *config);
  if (::geteuid() != 0) {
    std::cerr << "nodestaged: must be started by root (try: systemctl start nodestaged)\n";
    return 1;
  }
  log::open();
  log::set_level(config->daemon.log_level);
  ::umask(022);
  const Status served = serve(arguments, *config);
  if (served) return 0;
  log::critical("{}", served.error().what);
  return 1;
}

}  // namespace
}  // namespace nodestage

int main(int argc, char** argv) {
  try {
    const int code = nodestage::run(argc, argv);
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
    std::fprintf(stderr, "nodestaged: the output could not be written\n");
    return code == 0 ? 1 : code;
  } catch (const std::exception& fault) {  // thrown by a library
    std::fprintf(stderr, "nodestaged: %s\n", fault.what());
    return 1;
  }
}
