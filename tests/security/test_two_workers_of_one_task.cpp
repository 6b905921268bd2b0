// Attack: a worker of a job hangs, or takes long, and the next one of the same task starts
// meanwhile. What ends or kills the first one must not touch the second.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "../unit/job_site.hpp"
#include "../unit/texts.hpp"
#include "daemon/root/tasks/job_workers.hpp"

using namespace nodestage;

namespace {

// Without the jobs themselves.
struct OneJob {
  JobSite site = {};
  Counters counters = {};
  JobTable table{site.loop, site.journal, counters};
  JobFiles files{site.areas};
  JobWorkers workers{site.loop, site.config, table, files, site.workers, counters};
  JobRecord record = {};
  int ends = 0;

  OneJob() { record.begin = site.request(7); }
  void start(WorkerTask task) {
    REQUIRE(workers.start(record, workers.order(record, task), workers.bounds(record, task),
                          [this](const JobKey&, const WorkerEnd&) { ++ends; }));
  }
};

}  // namespace

TEST_CASE("a worker that ends late does not end the next one of its task") {
  OneJob work;
  work.start(WorkerTask::identify);
  work.start(WorkerTask::identify);
  REQUIRE(work.site.workers.end(WorkerTask::identify));
  CHECK(work.ends == 1);
  CHECK(work.workers.is_working(work.record.key(), WorkerTask::identify));
  work.workers.kill(work.record.key(), WorkerTask::identify);
  CHECK(work.site.workers.killed == std::vector<Workers::Id>{2});
  REQUIRE(work.site.workers.end(WorkerTask::identify));
  CHECK(work.ends == 2);
  CHECK_FALSE(work.workers.is_working(work.record.key(), WorkerTask::identify));
}

namespace {

// Cgroups that are directories of a scratch directory: whoever is to enter one cannot.
struct WorkerSite {
  Scratch scratch = {};
  std::string own = scratch / "cg/own";
  Loop loop = std::move(*Loop::create());
  std::optional<Workers> workers = {};
  WorkerStart start = {};

  WorkerSite() {
    std::filesystem::create_directories(own);
    std::filesystem::create_directories(scratch / "proc/self");
    std::ofstream(scratch / "proc/self/mountinfo")
        << "30 24 0:26 / " << (scratch / "cg") << " rw shared:4 - cgroup2 x rw\n";
    auto cgroups = Cgroups::discover("0::/own\n", scratch / "proc");
    REQUIRE(cgroups);
    workers.emplace(loop, std::move(*cgroups));
    start.program = "/nonexistent";
    start.cgroup = "7.0.measure";
  }
  [[nodiscard]] std::string cgroup() const { return own + "/nodestage-worker-7.0.measure"; }
};

}  // namespace

TEST_CASE("two workers of one task have a cgroup each") {
  WorkerSite site;
  int ends = 0;
  for (int i = 0; i < 2; ++i) {
    REQUIRE(site.workers->start(site.start, {}, {}, {}, [&](const WorkerEnd&) {
      if (++ends == 2) site.loop.stop();
    }));
  }
  CHECK(std::filesystem::is_directory(site.cgroup()));
  CHECK(std::filesystem::is_directory(site.cgroup() + "-2"));
  REQUIRE(site.loop.run());
}

namespace {

constinit bool stops_children = false;

}  // namespace

TEST_CASE("the cgroup of a worker that has ended is not removed before the next one enters it") {
  static const int k_set = ::pthread_atfork(
      nullptr, nullptr, [] { static_cast<void>(stops_children && ::raise(SIGSTOP)); });
  REQUIRE(k_set == 0);
  WorkerSite site;
  const auto stop = [&site](const WorkerEnd&) { site.loop.stop(); };
  REQUIRE(site.workers->start(site.start, {}, {}, {}, stop));
  const std::string busy = site.cgroup() + "/busy";
  std::ofstream(busy).close();
  REQUIRE(site.loop.run());
  std::filesystem::remove(busy);
  stops_children = true;
  const auto next = site.workers->start(site.start, {}, {}, {}, stop);
  stops_children = false;
  REQUIRE(next);
  site.loop.advance(std::chrono::seconds(1));  // then it is tried again
  site.loop.after({}, [&site] { site.loop.stop(); });
  REQUIRE(site.loop.run());
  CHECK(std::filesystem::is_directory(site.cgroup()));
  site.workers->kill(*next);
  REQUIRE(site.loop.run());
}

namespace {

int epoll_of_this_process() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    if (link_text(AT_FDCWD, entry.path()) == "anon_inode:[eventpoll]")
      return std::stoi(entry.path().filename());
  return -1;
}

}  // namespace

TEST_CASE("a worker that cannot be watched is killed and reaped, and nobody hears of it") {
  if (skipped_without_root()) return;
  WorkerSite site;
  Workers workers(site.loop, Cgroups::none());
  site.start.program = "/usr/bin/yes";
  head_of(site.start.order).uid = head_of(site.start.order).gid = 65534;
  site.start.groups = Groups::primary;
  const int epoll = epoll_of_this_process();
  REQUIRE(epoll >= 0);
  const Fd kept(::fcntl(epoll, F_DUPFD_CLOEXEC, 0));
  const Fd other(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  REQUIRE(::dup3(other.get(), epoll, O_CLOEXEC) == epoll);
  const auto started =
      workers.start(site.start, {}, {}, {}, [](const WorkerEnd&) { FAIL("nobody waits for it"); });
  REQUIRE(::dup3(kept.get(), epoll, O_CLOEXEC) == epoll);
  CHECK_FALSE(started);
  REQUIRE(workers.pids().size() == 1);
  const pid_t pid = workers.pids().front();
  const std::function<void()> look = [&] {
    if (workers.pids().empty()) return site.loop.stop();
    site.loop.after(std::chrono::milliseconds(20), look);
  };
  look();
  site.loop.after(std::chrono::minutes(5), [&] { site.loop.stop(); });
  REQUIRE(site.loop.run());
  CHECK(workers.pids().empty());
  CHECK(::waitpid(pid, nullptr, WNOHANG) < 0);
}
