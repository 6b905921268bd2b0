// DaemonNode: the parts of nodestaged that a test of its jobs needs, on a directory of their own.
#pragma once

#include <doctest/doctest.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

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
    JobRecord record;
    record.begin.job = job;
    record.begin.uid = record.begin.gid = 1000;
    record.begin.user = "alice";
    record.begin.node = "n1";
    record.begin.request = "{}";
    record.directory = "alice." + std::to_string(job) + ".0";
    record.state = state;
    std::ofstream(scratch / ("run/jobs/" + std::to_string(job)));
    return record;
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
