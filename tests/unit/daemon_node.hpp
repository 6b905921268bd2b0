// DaemonNode: the parts of nodestaged that a test of its jobs needs, on a directory of their own.
#pragma once

#include <doctest/doctest.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "common/os/child.hpp"
#include "common/wire/daemon_client.hpp"
#include "daemon/root/front/server.hpp"
#include "daemon/root/jobs/jobs.hpp"
#include "scratch.hpp"
#include "texts.hpp"

namespace nodestage {

struct DaemonNode {
  Scratch scratch;
  Config config;
  Result<Loop> loop = Loop::create();
  Result<Areas> areas = Areas::open(scratch / "");
  Result<Journal> journal = Journal::open(scratch / "state");
  Workers workers{*loop, Cgroups::none()};
  Trash trash{*loop, *areas, workers, config};
  Peers peers{*loop, config};
  SlurmQuestion slurm{*loop, config};
  Records records{scratch / "state", config};
  Jobs jobs{{*loop, config, *areas, *journal, workers, trash, peers, slurm, records}};

  DaemonNode() {
    spdlog::set_level(spdlog::level::off);
    std::filesystem::create_directories(scratch / "run/jobs");
    config.daemon.socket = scratch / "run/socket";
    config.daemon.worker_path = "/nonexistent/worker";
    config.slurm.scontrol = "/bin/false";
    config.staging.max_jobs = 1;
  }

  JobRecord record(std::uint32_t job, JobState state) const {
    std::ofstream(scratch / ("run/jobs/" + std::to_string(job)));
    return {
        .begin =
            {.job = job, .uid = 1000, .gid = 1000, .user = "alice", .node = "n1", .request = "{}"},
        .state = state,
        .directory = "alice." + std::to_string(job) + ".0"};
  }
  void keep(const JobRecord& record) const {
    REQUIRE(journal->save_request(record));
    REQUIRE(journal->save(record));
  }
  std::string state_of(std::uint32_t job) {
    const auto rows = jobs.status(job, 0);
    return rows.size() == 1 ? rows[0].row.state : "";
  }
};

// A node whose daemon is asked over its socket.
struct ServedNode : DaemonNode {
  std::optional<Server> server{std::in_place, *loop, config, jobs, std::size_t{1024}};
  Clock::time_point limit = Clock::now() + std::chrono::minutes(10);

  // For all users.
  void listen() {
    REQUIRE(server->listen(config.daemon.socket));
    for (const std::string& passage : {scratch.path().string(), scratch / "run"})
      REQUIRE(::chmod(passage.c_str(), 0711) == 0);
  }
  void run(std::chrono::milliseconds time) {
    loop->after(time, [this] { loop->stop(); });
    REQUIRE(loop->run());
  }
  [[nodiscard]] DaemonConnection ask(const Message& message) const {
    auto client = must(DaemonConnection::open(config.daemon.socket));
    REQUIRE(client.send(message, limit));
    return client;
  }
  // Nothing where there is none after so many tries.
  std::optional<Message> answer(DaemonConnection& client, int tries = 1'000'000) {
    for (int i = 0; i < tries && Clock::now() < limit; ++i) {
      run(std::chrono::milliseconds(1));
      auto message = client.receive(Clock::now() + std::chrono::milliseconds(1));
      if (message) return std::move(*message);
      REQUIRE(message.error().code == ETIMEDOUT);
    }
    return {};
  }
};

// As a worker that outlives the daemon.
struct Sleeper {
  pid_t pid = ::fork();
  Sleeper() {
    if (pid != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) ::pause();
  }
  ~Sleeper() {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  // By the 22nd field of its line (proc_pid_stat(5)), read apart from what is tested.
  [[nodiscard]] ProcessMark mark() const {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    std::getline(file, text);
    std::istringstream fields(text.substr(text.rfind(')') + 1));
    std::string field;
    for (int number = 3; number <= 22; ++number) fields >> field;
    return {pid, std::strtoull(field.c_str(), nullptr, 10)};
  }
};

}  // namespace nodestage
