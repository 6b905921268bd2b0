// nodestaged: the staging daemon, one per node.
//
// Inherits: uid 0 and the capabilities of its systemd unit, which it needs to make directories for
// users and to start workers as them. Drops nothing itself: each worker drops everything before it
// touches what a user wrote (privileges.hpp). Serves the unix socket until SIGTERM; SIGHUP reads
// the configuration again. Workers outlive it (KillMode=process); the next daemon takes them over.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <string>
#include <string_view>

#include "common/build_info.hpp"
#include "common/daemon_about.hpp"
#include "common/file.hpp"
#include "common/landlock_version.hpp"
#include "daemon/root/config.hpp"
#include "daemon/root/jobs.hpp"
#include "daemon/root/log.hpp"
#include "daemon/root/metrics_file.hpp"
#include "daemon/root/server.hpp"

namespace nodestage {
namespace {

struct Arguments {
  std::string config = k_config_path;
  bool check_only = false;
};

constexpr char k_usage[] =
    "Usage: nodestaged [--config FILE] [--check]\n"
    "The staging daemon of nodestage: one per node, started by systemd.\n\n"
    "  --config FILE   the configuration (default %s)\n"
    "  --check         check the configuration and exit\n"
    "  --version       print the version and exit\n"
    "See nodestaged(8).\n";

// The exit code when there is nothing more to do.
std::optional<int> parse_arguments(int argc, char** argv, Arguments& arguments) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--config" && i + 1 < argc) {
      arguments.config = argv[++i];
    } else if (argument == "--check") {
      arguments.check_only = true;
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

// With tmpdir.create = "always" the plugin must ask for every job: this file tells it.
Status mark_every_job(const Config& config, const std::string& runtime_dir) {
  const std::string path = runtime_dir + "/every-job";
  if (config.tmpdir.create != CreateDirectory::always) {
    ::unlink(path.c_str());
    return {};
  }
  TRY_ASSIGN(const Fd fd, open_at(AT_FDCWD, path, O_WRONLY | O_CREAT, 0644));
  return {};
}

// For `nodestage doctor`.
Status tell_about(const Config& config, const std::string& no_cgroups,
                  const std::string& runtime_dir) {
  const DaemonAbout about{k_version, tmpdir_root(config), config.staging.leave_free_bytes,
                          config.stageout.epilog_wait_s, no_cgroups};
  return replace_textfile(runtime_dir + "/about", encode_about(about));
}

// Takes what may change while jobs are there; the rest stays until a restart.
void take_over(Config& running, Config fresh) {
  if (fresh.tmpdir.path != running.tmpdir.path || fresh.daemon.socket != running.daemon.socket ||
      fresh.daemon.state_dir != running.daemon.state_dir) {
    log::warn(
        "tmpdir.path, daemon.socket and daemon.state_dir change with a restart only; the old "
        "values stay");
  }
  fresh.tmpdir.path = running.tmpdir.path;
  fresh.daemon.socket = running.daemon.socket;
  fresh.daemon.state_dir = running.daemon.state_dir;
  running = std::move(fresh);
}

void reload(const std::string& path, Config& config, const std::string& runtime_dir) {
  auto fresh = load_config(path);
  if (!fresh) {
    log::error("the configuration is wrong and the old one stays: {}", fresh.error().what);
    return;
  }
  take_over(config, std::move(*fresh));
  log::set_level(config.daemon.log_level);
  if (const Status marked = mark_every_job(config, runtime_dir); !marked)
    log::error("{}", marked.error().what);
  log::info("the configuration was read again from {}", path);
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

Result<Cgroups> find_cgroups(const Config& config) {
  if (config.worker.cgroup == UseCgroups::off) return Cgroups::none();
  TRY_ASSIGN(Cgroups cgroups, Cgroups::discover());
  if (!cgroups.missing().empty()) {
    log::warn("workers run without these limits, their cgroup controllers are not there: {}",
              cgroups.missing());
  }
  return cgroups;
}

void tell_of_sandbox() {
  if (landlock_version() >= k_landlock_wanted) return;
  log::warn(
      "this kernel offers no Landlock (version {} on, lsm=…,landlock): where workers write is "
      "bounded by their user's rights alone",
      k_landlock_wanted);
}

Status serve(const Arguments& arguments, Config& config) {
  const std::string runtime_dir = config.daemon.socket.substr(0, config.daemon.socket.rfind('/'));
  if (::mkdir(runtime_dir.c_str(), 0755) != 0 && errno != EEXIST) return system_error(runtime_dir);
  TRY_ASSIGN(const Fd signals, block_signals());
  TRY_ASSIGN(Loop loop, Loop::create());
  TRY_ASSIGN(Areas areas, Areas::open(tmpdir_root(config)));
  TRY_ASSIGN(const Journal journal, Journal::open(config.daemon.state_dir));
  TRY_ASSIGN(Cgroups cgroups, find_cgroups(config));
  tell_of_sandbox();
  const std::string no_cgroups =
      config.worker.cgroup == UseCgroups::off ? "off" : cgroups.missing();
  TRY(tell_about(config, no_cgroups, runtime_dir));
  TRY_ASSIGN(const Fd rate, open_at(AT_FDCWD, runtime_dir + "/read-rate", O_RDWR | O_CREAT, 0644));

  Workers workers(loop, std::move(cgroups));
  Trash trash(areas, workers, config);
  Peers peers(loop, config);
  SlurmQuestion slurm(loop, config);
  Records records(config.daemon.state_dir, config);
  Jobs jobs({loop, config, areas, journal, workers, trash, peers, slurm, records, rate.get()});
  Server server(loop, config, jobs);
  MetricsFile metrics(loop, config, [&jobs] { return jobs.metrics(); });
  TRY(server.listen(config.daemon.socket));
  TRY(mark_every_job(config, runtime_dir));
  peers.start([&jobs](const PeerNote& note) { jobs.take_note(note); });
  jobs.recover();
  metrics.settings_changed();
  TRY(loop.watch(signals.get(), [&] {
    signalfd_siginfo info{};
    if (::read(signals.get(), &info, sizeof info) != sizeof info) return;
    if (info.ssi_signo != SIGHUP) return loop.stop();
    reload(arguments.config, config, runtime_dir);
    peers.settings_changed();
    jobs.settings_changed();
    metrics.settings_changed();
    if (const Status told = tell_about(config, no_cgroups, runtime_dir); !told)
      log::error("{}", told.error().what);
  }));
  log::info("nodestaged {} serves {}; job directories: {}", k_version, config.daemon.socket,
            config.tmpdir.path);
  ::sd_notify(0, "READY=1");
  TRY(loop.run());
  ::sd_notify(0, "STOPPING=1");
  log::info("stopped; workers go on and the next daemon takes them over");
  return {};
}

int run(int argc, char** argv) {
  Arguments arguments;
  if (const auto code = parse_arguments(argc, argv, arguments)) return *code;
  auto config = load_config(arguments.config);
  if (!config) {
    std::cerr << "nodestaged: " << config.error().what << '\n';
    return 1;
  }
  if (arguments.check_only) {
    std::cout << arguments.config << ": ok\n";
    return 0;
  }
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
    return nodestage::run(argc, argv);
  } catch (const std::exception& fault) {  // of a library
    std::fprintf(stderr, "nodestaged: %s\n", fault.what());
    return 1;
  }
}
