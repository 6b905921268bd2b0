// Attack: a worker that was taken over looks for what its parent, root, has left open or set:
// descriptors, variables, signals, rights. It must find exactly what common/wire/worker_order.hpp
// lists.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <vector>

#include "../unit/scratch.hpp"
#include "../unit/texts.hpp"
#include "common/os/file.hpp"
#include "daemon/root/workers/worker_process.hpp"

using namespace nodestage;

namespace {

struct Inheritance {
  std::vector<std::string> lines;

  [[nodiscard]] std::vector<std::string> with(const std::string& prefix) const {
    std::vector<std::string> found;
    for (const auto& line : lines) {
      if (line.starts_with(prefix)) found.push_back(line);
    }
    std::sort(found.begin(), found.end());
    return found;
  }
  [[nodiscard]] bool has(const std::string& line) const {
    return std::find(lines.begin(), lines.end(), line) != lines.end();
  }
};

// Runs the fake worker as the daemon would run the real one; what it prints goes to the log pipe.
Inheritance start_fake(WorkerStart start, const Scratch& scratch) {
  ::chmod(scratch.path().c_str(), 0755);
  std::filesystem::copy_file(NODESTAGE_FAKE_WORKER, scratch / "worker");
  REQUIRE(::mkdir((scratch / "job").c_str(), 0700) == 0);
  const auto directory = open_at(AT_FDCWD, scratch / "job", O_RDONLY | O_DIRECTORY);
  const auto status = open_at(AT_FDCWD, scratch / "status", O_RDWR | O_CREAT, 0600);
  const auto rate = open_at(AT_FDCWD, scratch / "rate", O_RDWR | O_CREAT, 0644);
  const auto answer = open_at(AT_FDCWD, scratch / "answer", O_RDWR | O_CREAT, 0600);
  REQUIRE((directory && status && rate && answer));
  start.program = scratch / "worker";
  start.request = "{}";
  start.directory_fd = directory->get();
  start.status_fd = status->get();
  start.rate_fd = rate->get();
  start.answer_fd = answer->get();
  auto process = must(WorkerProcess::start(start, Cgroups::none()));
  pollfd ended{process.pid_fd(), POLLIN, 0};
  REQUIRE(::poll(&ended, 1, 30'000) == 1);
  CHECK(process.read_start_fault());
  CHECK(process.reap().kind == WorkerEnd::Kind::done);
  ::fcntl(process.log_fd(), F_SETFL, 0);
  Inheritance seen;
  std::istringstream text(read_all(process.log_fd(), 1 << 20).value());
  for (std::string line; std::getline(text, line);) seen.lines.push_back(line);
  return seen;
}

WorkerStart users_start() {
  WorkerStart start;
  OrderHead& order = head_of(start.order);
  order.uid = order.gid = 65534;
  order.user = "nobody";
  start.groups = Groups::primary;
  return start;
}

}  // namespace

TEST_CASE("a worker inherits exactly the documented descriptors and two variables") {
  if (skipped_without_root()) return;
  const Scratch scratch;
  // What a careless parent might have: descriptors without O_CLOEXEC, variables, a mask, a
  // directory.
  const Fd leak(::open("/etc/shadow", O_RDONLY));
  const Fd far_leak(::fcntl(leak.get(), F_DUPFD, 500));
  ::setenv("LD_PRELOAD", "", 1);
  ::setenv("SECRET", "of root", 1);
  const Inheritance seen = start_fake(users_start(), scratch);
  ::unsetenv("LD_PRELOAD");
  ::unsetenv("SECRET");

  const auto descriptors = seen.with("fd ");
  REQUIRE(descriptors.size() == k_worker_started_fd);
  for (int fd = 0; fd < k_worker_started_fd; ++fd) {
    CAPTURE(fd);
    CHECK(std::any_of(descriptors.begin(), descriptors.end(), [fd](const std::string& line) {
      return line.starts_with("fd " + std::to_string(fd) + " ");
    }));
  }
  CHECK(seen.has("fd 0 r"));
  CHECK(seen.has("fd 1 w"));
  CHECK(seen.has("fd 2 w"));
  CHECK(seen.has("fd 6 r"));
  CHECK(seen.with("env ") ==
        std::vector<std::string>{"env LC_ALL=C.UTF-8", "env PATH=/usr/local/bin:/usr/bin:/bin"});
  CHECK(seen.with("arg ") == std::vector<std::string>{"arg nodestage-worker"});
}

TEST_CASE(
    "a worker cannot change its order, its request, the node's read rate or what it is admitted") {
  if (skipped_without_root()) return;
  const Scratch scratch;
  const Inheritance seen = start_fake(users_start(), scratch);
  for (const int fd :
       {k_worker_order_fd, k_worker_request_fd, k_worker_rate_fd, k_worker_answer_fd})
    CHECK_MESSAGE(seen.has("writable " + std::to_string(fd) + " 0"), fd);
}

TEST_CASE("a worker starts as its user with nothing of root's") {
  if (skipped_without_root()) return;
  const Scratch scratch;
  const Inheritance seen = start_fake(users_start(), scratch);
  CHECK(seen.has("Uid:\t65534\t65534\t65534\t65534"));
  CHECK(seen.has("Gid:\t65534\t65534\t65534\t65534"));
  CHECK(seen.has("Groups:\t65534 "));
  for (const char* set : {"Inh", "Prm", "Eff", "Bnd", "Amb"})
    CHECK_MESSAGE(seen.has("Cap" + std::string(set) + ":\t0000000000000000"), set);
  CHECK(seen.has("NoNewPrivs:\t1"));
  CHECK(seen.has("SigBlk:\t0000000000000000"));
  CHECK(seen.has("SigIgn:\t0000000000000000"));
  CHECK(seen.has("cwd /"));
  CHECK(seen.has("umask 77"));
  CHECK(seen.has("session leader 1"));
  CHECK(seen.has("core 0"));
}

TEST_CASE("a remover of files of other owners is root with three capabilities") {
  if (skipped_without_root()) return;
  const Scratch scratch;
  WorkerStart start{.order = RemoveOrder(), .groups = Groups::primary};
  const Inheritance seen = start_fake(start, scratch);
  // CAP_DAC_OVERRIDE 1, CAP_DAC_READ_SEARCH 2, CAP_FOWNER 3.
  CHECK(seen.has("CapPrm:\t000000000000000e"));
  CHECK(seen.has("CapEff:\t000000000000000e"));
  CHECK(seen.has("CapBnd:\t000000000000000e"));
  CHECK(seen.has("CapAmb:\t0000000000000000"));
  CHECK(seen.has("NoNewPrivs:\t1"));
}

TEST_CASE("only a remover may be root") {
  if (skipped_without_root()) return;
  for (const WorkerTask task : {WorkerTask::stage, WorkerTask::stage_out}) {
    const Scratch scratch;
    WorkerStart start{.program = "/bin/true", .order = blank_order(task)};
    auto directory = open_at(AT_FDCWD, scratch.path(), O_RDONLY | O_DIRECTORY);
    start.directory_fd = directory->get();
    auto process = must(WorkerProcess::start(start, Cgroups::none()));
    pollfd ended{process.pid_fd(), POLLIN, 0};
    REQUIRE(::poll(&ended, 1, 30'000) == 1);
    CHECK(has(must_fail(process.read_start_fault()).what, "root"));
    CHECK(process.reap().text == "ended with code 127");
  }
}
