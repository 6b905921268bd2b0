#include <doctest/doctest.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>

#include "cli/process/command_process.hpp"
#include "cli/process/programs.hpp"
#include "common/os/child.hpp"
#include "scratch.hpp"
#include "texts.hpp"

using namespace nodestage;
using std::chrono::milliseconds;

namespace {

Program shell(const std::string& script) { return {{"sh", "-c", script}, {}, {}}; }

}  // namespace

TEST_CASE("programs: output, errors and codes, in the order of the programs") {
  std::vector<Program> programs;
  for (int i = 0; i < 20; ++i) {
    const std::string n = std::to_string(i);
    programs.push_back(shell("echo out " + n + "; echo error " + n + " >&2; exit " + n));
  }
  const auto ends = run_programs(programs);
  REQUIRE(ends.size() == 20);
  for (std::size_t i = 0; i < 20; ++i) {
    CHECK(ends[i].code == static_cast<int>(i));
    CHECK(ends[i].output == "out " + std::to_string(i) + "\n");
    CHECK(ends[i].errors == "error " + std::to_string(i) + "\n");
    CHECK_FALSE(ends[i].late);
  }
  CHECK(run_programs({}).empty());
}

TEST_CASE("programs: what cannot be run, and what a signal ends") {
  CHECK(run_program({{"/no/such/program"}, {}, {}}).code == 127);
  CHECK(run_program({{"/no/such/program"}, {}, {}}).is_not_run());
  CHECK(run_program({{"/etc/passwd"}, {}, {}}).code == 126);
  CHECK(run_program(shell("kill -KILL $$")).code == 137);
}

TEST_CASE("programs: nothing to read, and only the environment that is given") {
  CHECK(run_program(shell("cat; echo end")).output == "end\n");
  CHECK(run_program({{"/usr/bin/env"}, {{"A=1", "B=2"}}, {}}).output == "A=1\nB=2\n");
}

TEST_CASE("programs: one that goes on too long is ended, with what it has started") {
  const auto ends = run_programs(
      {shell("echo begun; sleep 1000"), shell("sleep 1000 & echo other")}, std::chrono::seconds(1));
  CHECK(ends[0].late);
  CHECK(ends[0].code == 143);
  CHECK(ends[1].late);  // its child holds the output
}

TEST_CASE("programs: output is bounded") {
  const auto end = run_program(shell("head -c 5000000 /dev/zero"));
  CHECK(end.code == 0);
  CHECK(end.output.size() == 4 << 20);
  CHECK(end.is_cut);
  const auto errors = run_program(shell("head -c 70000 /dev/zero | tr '\\0' x >&2; echo"));
  CHECK(errors.errors.size() == k_most_errors);
  CHECK(errors.output == "\n");
  CHECK_FALSE(errors.is_cut);
}

TEST_CASE("programs: root becomes another user, nobody else does") {
  const auto nobody = must(account_of(65534));
  const ProgramEnd end = run_program({{"id", "-u"}, {}, nobody});
  if (::geteuid() == 0) {
    CHECK(end.output == "65534\n");
  } else {
    CHECK(end.code == 126);
  }
  CHECK_FALSE(account_of(4294967290U));
}

namespace {

struct Run {
  Signals signals;
  CommandProcess process;

  explicit Run(const std::string& script, const std::vector<VariableChange>& environment = {})
      : signals(std::move(*Signals::open())),
        process(
            std::move(*CommandProcess::start({"/bin/sh", "-c", script}, environment, signals))) {}

  int end() {
    while (!process.has_ended()) signals.next(milliseconds(1000));
    return process.code();
  }
};

void wait_for(const std::string& path) {
  for (int i = 0; i < 1000 && !std::filesystem::exists(path); ++i) ::usleep(5000);
}

bool is_gone(pid_t pid) {
  for (int i = 0; i < 1000; ++i) {
    const std::string state = file_text("/proc/" + std::to_string(pid) + "/stat");
    if (state.empty() || state.find(") Z ") != std::string::npos) return true;
    ::usleep(5000);
  }
  return false;
}

}  // namespace

TEST_CASE("the exit code is the command's, or 128 and the signal that ended it") {
  CHECK(Run("exit 0").end() == 0);
  CHECK(Run("exit 7").end() == 7);
  CHECK(Run("kill -TERM $$").end() == 143);
  CHECK(Run("kill -KILL $$").end() == 137);
}

TEST_CASE("its environment is changed, ours is not") {
  Scratch scratch;
  ::setenv("NODESTAGE_TEST_GONE", "x", 1);
  Run run("echo \"$A ${NODESTAGE_TEST_GONE-unset}\" >" + (scratch / "out"),
          {{"A", "b c"}, {"NODESTAGE_TEST_GONE", std::nullopt}});
  CHECK(run.end() == 0);
  CHECK(file_text(scratch / "out") == "b c unset\n");
  CHECK(::getenv("A") == nullptr);
  ::unsetenv("NODESTAGE_TEST_GONE");
}

TEST_CASE("a signal reaches all of its group, and nothing else") {
  Scratch scratch;
  const std::string script = "trap 'echo outer >>" + (scratch / "out") + "; wait; exit 9' USR1; " +
                             "sh -c 'trap \"echo inner >>" + (scratch / "out") +
                             "; exit\" USR1; : >" + (scratch / "ready") +
                             "; while :; do sleep 0.01; done' & wait";
  Run run(script);
  wait_for(scratch / "ready");
  run.process.signal(SIGUSR1);
  CHECK(run.end() == 9);
  const std::string out = file_text(scratch / "out");
  check_has(out, {"outer", "inner"});
}

TEST_CASE("what it leaves in its group ends with it") {
  Scratch scratch;
  Run run("sleep 1000 & echo $! >" + (scratch / "pid"));
  CHECK(run.end() == 0);
  CHECK(is_gone(std::stoi(file_text(scratch / "pid"))));
}

TEST_CASE("it gets the signals' usual effects back") {
  // With SIGTERM blocked, as it is here, the shell would go on.
  CHECK(Run("kill -TERM $$; exit 3").end() == 143);
  CHECK(Run("kill -PIPE $$; exit 3").end() == 141);
}

TEST_CASE("a program that cannot be run is a fault with its cause") {
  auto signals = must(Signals::open());
  const Error missing = must_fail(CommandProcess::start({"/nonexistent/x"}, {}, signals));
  CHECK(missing.code == ENOENT);
  CHECK(missing.what == "/nonexistent/x: No such file or directory");
  CHECK(must_fail(CommandProcess::start({"/"}, {}, signals)).code == EACCES);
}

TEST_CASE("one that is dropped is ended") {
  Scratch scratch;
  const auto begun = std::chrono::steady_clock::now();
  { Run run("sleep 1000"); }
  CHECK(std::chrono::steady_clock::now() - begun < std::chrono::seconds(100));
}

TEST_CASE("if this process is killed, the command and its group are killed") {
  Scratch scratch;
  auto child = must(ChildProcess::start(Orphan::killed, [&] {
    Run run("sleep 1000 & echo $! >" + (scratch / "inner") + "; echo $$ >" + (scratch / "new") +
            "; mv " + (scratch / "new") + " " + (scratch / "outer") + "; wait");
    wait_for(scratch / "outer");
    ::raise(SIGKILL);
    return 0;
  }));
  child.wait();
  CHECK(is_gone(std::stoi(file_text(scratch / "outer"))));
  CHECK(is_gone(std::stoi(file_text(scratch / "inner"))));
}

TEST_CASE("one deadly signal twice within a moment is one") {
  auto signals = must(Signals::open());
  const auto next = [&](int signal) {
    ::raise(signal);
    return signals.next(milliseconds(1000));
  };
  CHECK(next(SIGTERM) == SIGTERM);
  CHECK_FALSE(next(SIGTERM));
  CHECK(next(SIGUSR1) == SIGUSR1);
  CHECK(next(SIGUSR1) == SIGUSR1);
  CHECK(next(SIGINT) == SIGINT);  // another one is another request
  CHECK(next(SIGTERM) == SIGTERM);
}

TEST_CASE("signals come one after another; those that were ignored stay so") {
  struct sigaction ignored {};
  ignored.sa_handler = SIG_IGN;
  struct sigaction before {};
  ::sigaction(SIGHUP, &ignored, &before);
  {
    auto signals = must(Signals::open());
    CHECK(!signals.next(milliseconds(0)));
    ::raise(SIGTERM);
    ::raise(SIGHUP);
    CHECK(signals.next(milliseconds(1000)) == SIGTERM);
    CHECK(!signals.next(milliseconds(0)));
  }
  ::sigaction(SIGHUP, &before, nullptr);
  CHECK(is_deadly(SIGHUP));
  CHECK(!is_deadly(SIGUSR1));
}
