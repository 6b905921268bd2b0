#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "plugin/left_writers.hpp"
#include "scratch.hpp"

using namespace nodestage;

namespace {

constexpr uid_t k_user = 65534;

// A process of that user that has opened the file, or is in the directory.
pid_t start(const std::string& path, uid_t uid) {
  int ready[2];
  REQUIRE(::pipe2(ready, O_CLOEXEC) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    static_cast<void>(::signal(SIGTERM, SIG_DFL));  // not the test program's handler
    const bool is_in = std::filesystem::is_directory(path) ? ::chdir(path.c_str()) == 0
                                                           : ::open(path.c_str(), O_RDONLY) >= 0;
    const bool is_user = ::setgid(uid) == 0 && ::setuid(uid) == 0;
    if (is_in && is_user && ::write(ready[1], "x", 1) == 1) ::pause();
    ::_exit(1);
  }
  ::close(ready[1]);
  char byte = 0;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  ::close(ready[0]);
  return child;
}

}  // namespace

TEST_CASE("attack: who has something open in what is kept is killed, and nobody else") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: needs root to kill processes of a user");
    return;
  }
  const Scratch scratch;
  const std::string hold = scratch / "hold";
  std::filesystem::create_directories(hold + "/12.0/sub");
  std::filesystem::create_directories(scratch / "holdings");
  std::ofstream(hold + "/12.0/file").close();
  const pid_t reader = start(hold + "/12.0/file", k_user);
  const pid_t inside = start(hold + "/12.0/sub", k_user);
  const pid_t outside = start(scratch / "holdings", k_user);
  const pid_t other = start(hold + "/12.0/file", k_user - 1);
  std::vector<int> killed = kill_left_writers(hold, k_user);
  std::sort(killed.begin(), killed.end());
  std::vector<int> meant = {reader, inside};
  std::sort(meant.begin(), meant.end());
  CHECK(killed == meant);
  CHECK(kill_left_writers(hold, 0).empty());
  CHECK(kill_left_writers(scratch / "nowhere", k_user).empty());
  for (const pid_t pid : {outside, other}) CHECK(::kill(pid, SIGTERM) == 0);
  for (const pid_t pid : {reader, inside, outside, other}) {
    int status = 0;
    CHECK(::waitpid(pid, &status, 0) == pid);
    CHECK(WTERMSIG(status) == (pid == reader || pid == inside ? SIGKILL : SIGTERM));
  }
}
