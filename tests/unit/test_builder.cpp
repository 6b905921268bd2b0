#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "common/os/file.hpp"
#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/venv/builder.hpp"
#include "stage_run.hpp"
#include "texts.hpp"

using namespace nodestage;
using Clock = Builder::Clock;

namespace {

// In a child of its own, since the sandbox is for good and no_new_privs must be set.
class BuilderRun {
 public:
  Scratch scratch;
  std::atomic<bool> stop = false;

  template <typename Test>
  int run(Test test) {
    std::filesystem::create_directory(scratch / "job");
    if (::geteuid() == 0) {
      REQUIRE(::chown((scratch / "job").c_str(), k_test_uid, k_test_uid) == 0);
      REQUIRE(::chown(scratch.path().c_str(), k_test_uid, k_test_uid) == 0);
    }
    return as_user([&] {
      ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
      const Fd job(::open((scratch / "job").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
      auto builder = Builder::start(job.get(), 022);
      return builder ? test(*builder) : 99;
    });
  }

  BuildCommand shell(const std::string& text) const {
    return {{"/bin/sh", "-c", text}, {"A=b c"}, scratch / "job", scratch / "job/log", ""};
  }

  Result<int> execute(Builder& builder, const std::string& text) const {
    return builder.run(shell(text), Clock::now() + std::chrono::minutes(1), stop,
                       [] { return Status(); });
  }

  [[nodiscard]] std::string log() const {
    const auto text = read_file(AT_FDCWD, scratch / "job/log", 1 << 20);
    return text ? *text : "";
  }
};

bool has_landlock() { return ::syscall(SYS_landlock_create_ruleset, nullptr, 0, 1) >= 2; }

}  // namespace

TEST_CASE("builder: exit codes, environment, directory, log") {
  BuilderRun run;
  CHECK(run.run([&](Builder& builder) {
    if (*run.execute(builder, "echo \"$A\"; pwd; env | wc -l; ls /proc/self/fd | xargs; exit 7") !=
        7)
      return 1;
    if (*run.execute(builder, "kill -9 $$") != 128 + 9) return 2;
    BuildCommand command = run.shell("echo out; echo log >&2");
    command.output = run.scratch / "job/out";
    const auto done = builder.run(command, Clock::now() + std::chrono::minutes(1), run.stop,
                                  [] { return Status(); });
    if (!done || *done != 0) return 3;
    command.arguments = {"/no/such/program"};
    const auto missing = builder.run(command, Clock::now() + std::chrono::minutes(1), run.stop,
                                     [] { return Status(); });
    return missing && *missing == 127 ? 0 : 4;
  }) == 0);
  CHECK(run.log().starts_with("b c\n" + (run.scratch / "job") + "\n"));
  CHECK(has(run.log(), "\n0 1 2 3\n"));  // 3: ls's own
  check_has(run.log(), {"/no/such/program: No such file or directory", "\nlog\n"});
  CHECK_FALSE(has(run.log(), "\nout\n"));
}

TEST_CASE("builder: a deadline, a stop and a failed check end all that was started") {
  BuilderRun run;
  std::string command = "setsid sleep 1000 & sleep 1000 & echo $! $$ >pids; wait";
  const auto all_gone = [&](Builder& builder, Clock::time_point deadline, const Status& answer) {
    const auto done = builder.run(run.shell(command), deadline, run.stop, [&] { return answer; });
    if (done) return Error{0, "it ended"};
    const auto pids = read_file(AT_FDCWD, run.scratch / "job/pids", 100);
    int first = 0;
    int second = 0;
    if (!pids || std::sscanf(pids->c_str(), "%d %d", &first, &second) != 2)
      return Error{0, "no pids"};
    if (::kill(first, 0) == 0 || ::kill(second, 0) == 0) return Error{0, "alive"};
    return done.error();
  };
  const auto later = Clock::now() + std::chrono::minutes(1);
  CHECK(run.run([&](Builder& builder) {
    return all_gone(builder, Clock::now() + std::chrono::milliseconds(300), {}).code == ETIMEDOUT
               ? 0
               : 1;
  }) == 0);
  CHECK(run.run([&](Builder& builder) {
    const auto fault = all_gone(builder, later, Error{ENOSPC, "full"});
    return fault.what == "full" && !run.execute(builder, "true") ? 0 : 1;
  }) == 0);
  run.stop = true;
  command = "echo 1 1 >pids; sleep 1000";
  CHECK(run.run([&](Builder& builder) {
    return is_stopped(builder.run(run.shell("sleep 1000"), later, run.stop, [] { return Status(); })
                          .error())
               ? 0
               : 1;
  }) == 0);
}

TEST_CASE("builder: writes stay below the job directory, where the kernel can say so") {
  if (!has_landlock()) {
    MESSAGE("not tested: no Landlock in this kernel");
    return;
  }
  BuilderRun run;
  const std::string out = run.scratch / "outside";
  CHECK(run.run([&](Builder& builder) {
    if (*run.execute(builder,
                     "echo x >inside && mkdir d && mv inside d/ && rm -r d && "
                     "echo >/dev/null && head -c 1 /dev/urandom >/dev/null") != 0)
      return 1;
    if (*run.execute(builder, "echo x >" + out) == 0) return 2;
    if (*run.execute(builder, "ln -s " + out + " link; echo x >link") == 0) return 3;
    if (*run.execute(builder, "echo >/dev/tty || : >/dev/shm/nodestage-test") == 0) return 4;
    if (*run.execute(builder, "mkdir ../sibling") == 0) return 5;
    return 0;
  }) == 0);
  CHECK_FALSE(std::filesystem::exists(out));
}

TEST_CASE("builder: no network, no tracing, no other namespaces, and all that programs need") {
  BuilderRun run;
  const int code = run.run([&](Builder& builder) {
    return *run.execute(builder, R"(exec /usr/bin/python3 -I -c '
import ctypes, socket, subprocess, threading
libc = ctypes.CDLL(None, use_errno=True)
for family in (socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, 38):
    try:
        socket.socket(family, socket.SOCK_DGRAM)
        print("a socket of family", family)
    except PermissionError:
        pass
for name, arguments in {"unshare": (0x10000000,), "ptrace": (0, 0, 0, 0), "setns": (0, 0)}.items():
    if getattr(libc, name)(*arguments) != -1 or ctypes.get_errno() != 1:
        print(name, "is not refused")
socket.socketpair()
socket.socket(socket.AF_UNIX)
thread = threading.Thread(target=subprocess.run, args=(["true"],))
thread.start()
thread.join()
print("all done")
')");
  });
  CHECK(code == 0);
  CHECK(run.log() == "all done\n");
}

TEST_CASE("builder: what leaves its session and its parent ends with its command") {
  BuilderRun run;
  CHECK(run.run([&](Builder& builder) {
    const auto done = run.execute(builder,
                                  "(setsid sh -c 'echo $$ >new; mv new pid; exec sleep 1000' &); "
                                  "until [ -e pid ]; do :; done");
    const auto text = read_file(AT_FDCWD, run.scratch / "job/pid", 100);
    const int pid = text ? std::atoi(text->c_str()) : 0;
    return done && *done == 0 && pid > 1 && ::kill(pid, 0) != 0 ? 0 : 1;
  }) == 0);
}
