#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <filesystem>

#include "common/os/child.hpp"
#include "common/os/file.hpp"
#include "fake_daemon.hpp"
#include "plugin/stage_wait.hpp"
#include "scratch.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

// One wait against a scripted daemon, and what the task said.
struct Trial {
  Scratch scratch;
  PluginSettings settings;
  StageWaitOrder order;
  Speech speech = Speech::aloud;
  std::string said;

  Trial() {
    settings.socket = scratch / "s";
    settings.daemon_wait = std::chrono::seconds(0);
    order.wait.job = 7;
    order.node = "n1";
  }

  StageWaitResult run() {
    const auto out = open_at(AT_FDCWD, scratch / "out", O_RDWR | O_CREAT, 0600);
    StageWaitResult result;
    {
      TaskVoice voice(speech, out.value().get(), false, order.node, settings.progress);
      result = wait_for_stage(order, settings, voice);
    }
    said = read_file(AT_FDCWD, scratch / "out", 65536).value();
    return result;
  }
  StageWaitResult run(std::vector<FakeDaemon::Script> scripts) {
    const FakeDaemon daemon(settings.socket, std::move(scripts));
    return run();
  }
};

}  // namespace

TEST_CASE("stage wait: what the daemon answers, and what the task says then") {
  struct Row {
    const char* what;
    Speech speech;
    Message answered;
    StageVerdict verdict;
    const char* said;
  };
  for (const Row& row :
       {Row{"ready gives the environment and the lines", Speech::aloud,
            Ready{{"SLURM_TMPDIR=/l/7"}, {"data: 1 file", "done"}}, StageVerdict::go_on,
            "nodestage: n1: data: 1 file\nnodestage: n1: done\n"},
        Row{"a failure says the cause, each line prefixed", Speech::aloud,
            Failed{"data.tar: damaged\nat byte 5", {"other: done"}}, StageVerdict::fail,
            "nodestage: n1: other: done\nnodestage: n1: data.tar: damaged\n"
            "nodestage: n1: at byte 5\n"},
        Row{"a task that does not speak says nothing", Speech::silent, Failed{"cause", {"line"}},
            StageVerdict::fail, ""},
        Row{"a failure that the step's first node tells ends the others without a word",
            Speech::results, Failed{}, StageVerdict::fail, ""}}) {
    CAPTURE(row.what);
    Trial trial;
    trial.speech = row.speech;
    const auto result = trial.run({FakeDaemon::answer(row.answered)});
    CHECK(result.verdict == row.verdict);
    CHECK(trial.said == row.said);
    if (row.verdict == StageVerdict::go_on)
      CHECK(result.environment == std::vector<std::string>{"SLURM_TMPDIR=/l/7"});
  }
}

TEST_CASE("stage wait: the wait message says who speaks and how often") {
  Trial trial;
  Wait heard;
  const auto script = [&](FakePeer& peer) {
    heard = std::get<Wait>(peer.hear());
    peer.say(Ready{});
  };
  static_cast<void>(trial.run({script}));
  CHECK(heard.job == 7);
  CHECK(heard.speaks == 1);
  CHECK(heard.interval_ms == 2000);
  Trial silent;
  silent.speech = Speech::silent;
  static_cast<void>(silent.run({script}));
  CHECK(heard.speaks == 0);
  CHECK(heard.goes_on == 0);
  CHECK(heard.scope == WaitScope::all);
  silent.order.patience = StageWait::node;
  static_cast<void>(silent.run({script}));
  CHECK(heard.scope == WaitScope::node);
  silent.order.patience = StageWait::none;
  static_cast<void>(silent.run({script}));
  CHECK(heard.goes_on == 1);
  CHECK(heard.scope == WaitScope::node);
}

TEST_CASE("stage wait: on a step's other nodes, results are told and progress is not") {
  Trial trial;
  trial.speech = Speech::results;
  trial.settings.progress = std::chrono::seconds(0);
  const auto script = [](FakePeer& peer) {
    CHECK(std::get<Wait>(peer.hear()).speaks == k_says_own);
    peer.say(Progress{});
    peer.say(Ready{{}, {"data: 1 file"}});
  };
  CHECK(trial.run({script}).verdict == StageVerdict::go_on);
  CHECK(trial.said == "nodestage: n1: data: 1 file\n");
}

TEST_CASE("stage wait: progress that ends soon is not printed") {
  Trial trial;
  const auto script = [](FakePeer& peer) {
    static_cast<void>(peer.hear());
    for (int i = 0; i < 50; ++i) peer.say(Progress{});
    peer.say(Ready{});
  };
  CHECK(trial.run({script}).verdict == StageVerdict::go_on);
  CHECK(trial.said.empty());
}

TEST_CASE("stage wait: a daemon that restarts is waited for") {
  Trial trial;
  trial.settings.daemon_wait = std::chrono::seconds(5);
  const auto dies = [](FakePeer& peer) {
    static_cast<void>(peer.hear());
    peer.say(Progress{});
  };
  CHECK(trial.run({dies, dies, FakeDaemon::answer(Ready{})}).verdict == StageVerdict::go_on);
}

TEST_CASE("stage wait: no daemon fails with what to do") {
  Trial trial;
  CHECK(trial.run().verdict == StageVerdict::fail);
  CHECK(has(trial.said, "--exclude=n1"));
}

TEST_CASE("stage wait: every refusal fails with its text") {
  for (const auto reason :
       {RefusalReason::malformed, RefusalReason::not_permitted, RefusalReason::unknown_job,
        RefusalReason::busy, RefusalReason::fault}) {
    Trial trial;
    CHECK(trial.run({FakeDaemon::answer(Refused{reason, "some reason"})}).verdict ==
          StageVerdict::fail);
    CHECK(has(trial.said, "some reason"));
  }
}

TEST_CASE("stage wait: the limit ends it") {
  Trial trial;
  trial.settings.stage_wait = std::chrono::seconds(0);
  const auto silent = [](FakePeer& peer) {
    static_cast<void>(peer.hear());
    static_cast<void>(peer.hear());
  };
  CHECK(trial.run({silent}).verdict == StageVerdict::fail);
  CHECK(has(trial.said, "longest that a task waits"));
}

TEST_CASE("stage wait: a daemon that says nothing any more is given up as one that is away") {
  Trial trial;
  trial.settings.progress = std::chrono::seconds(1);
  const auto falls_silent = [](FakePeer& peer) {
    static_cast<void>(peer.hear());
    peer.say(Progress{});
    static_cast<void>(peer.hear());
  };
  CHECK(trial.run({falls_silent}).verdict == StageVerdict::fail);
  check_has(trial.said, {"has not answered", "--exclude=n1"});
}

TEST_CASE("stage wait: none takes what is ready and never fails") {
  Trial ready;
  ready.order.patience = StageWait::none;
  CHECK(ready.run({FakeDaemon::answer(Ready{{"NODESTAGE_DATASET=/l/d"}, {}})}).environment.size() ==
        1);

  const Message others[] = {Progress{}, Failed{"cause", {}}, Refused{RefusalReason::fault, "why"}};
  for (const auto& message : others) {
    Trial trial;
    trial.order.patience = StageWait::none;
    const auto result = trial.run({FakeDaemon::answer(message)});
    CHECK(result.verdict == StageVerdict::go_on);
    CHECK(result.environment.empty());
    CHECK(trial.said.empty() == std::holds_alternative<Progress>(message));
  }
}

namespace {

struct Death {
  int signal = 0;
  std::string words;
};

// Of a process that receives the signal while it waits.
Death die(int signal, const DeadlySignals::Words& words) {
  auto pipe = must(make_pipe());
  auto child = must(ChildProcess::start(Orphan::killed, [&] {
    const DeadlySignals signals(pipe.write.get(), words);
    DeadlySignals::note_progress("a.tar: 1.0 of 9.0 GiB (11%)");
    DeadlySignals::note_progress("a.tar: 2.0 of 9.0 GiB (22%)");
    ::raise(signal);
    return 0;
  }));
  pipe.write.reset();
  const auto text = must(read_all(pipe.read.get(), 4096));
  const int status = child.wait().value_or(0);
  return {WIFSIGNALED(status) ? WTERMSIG(status) : 0, text};
}

}  // namespace

TEST_CASE("a task that waits for its data dies by SIGTERM, with a last line") {
  const Death death = die(SIGTERM, {true, "nodestage: n1: ", 0});
  CHECK(death.signal == SIGTERM);
  CHECK(death.words ==
        "nodestage: n1: the job has reached its time limit, or was canceled, before its data were "
        "staged: a.tar: 2.0 of 9.0 GiB (22%)\n");
}

TEST_CASE("where Slurm says when the time limit ends, the line says whether it did") {
  const std::time_t now = std::time(nullptr);
  CHECK(die(SIGTERM, {true, "", now}).words.starts_with("the job's time limit has come before"));
  CHECK(die(SIGTERM, {true, "", now + 100}).words.starts_with("the job was canceled before"));
}

TEST_CASE("the tasks that do not show progress, and SIGINT, die without a word") {
  const Death silent = die(SIGTERM, {false, "nodestage: n1: ", 0});
  CHECK(silent.signal == SIGTERM);
  CHECK(silent.words.empty());
  const Death interrupted = die(SIGINT, {true, "nodestage: n1: ", 0});
  CHECK(interrupted.signal == SIGINT);
  CHECK(interrupted.words.empty());
}

TEST_CASE("afterwards, signals have their earlier effect") {
  struct sigaction ignored {};
  struct sigaction now {};
  ignored.sa_handler = SIG_IGN;
  struct sigaction before {};
  ::sigaction(SIGTERM, &ignored, &before);
  { const DeadlySignals signals(2, {true, "", 0}); }
  ::sigaction(SIGTERM, nullptr, &now);
  const bool is_ignored = now.sa_handler == SIG_IGN;
  CHECK(is_ignored);
  ::sigaction(SIGTERM, &before, nullptr);
}

namespace {

// What is said on stderr about a task that was to have `directory`, and whose program gets `other`.
// The program runs until that was said. It has no stderr, which so ends with the process that
// compares.
std::string said(const std::string& directory, const char* other) {
  auto errors = must(make_pipe());
  auto input = must(make_pipe());
  const pid_t task = ::fork();
  if (task == 0) {
    ::dup2(errors.write.get(), STDERR_FILENO);
    ::dup2(input.read.get(), STDIN_FILENO);
    compare_when_started(directory, "nodestage: n1: ");
    if (other != nullptr)
      ::setenv("SLURM_TMPDIR", other, 1);
    else
      ::unsetenv("SLURM_TMPDIR");
    ::fcntl(STDERR_FILENO, F_SETFD, FD_CLOEXEC);
    ::execl("/bin/cat", "cat", nullptr);
    ::_exit(1);
  }
  errors.write.reset();
  std::string text;
  char byte = 0;
  while (::read(errors.read.get(), &byte, 1) == 1) text += byte;
  input.write.reset();
  ::waitpid(task, nullptr, 0);
  return text;
}

}  // namespace

TEST_CASE("started task: SLURM_TMPDIR in an environment") {
  using namespace std::string_view_literals;
  CHECK(directory_in("A=1\0SLURM_TMPDIR=/x/y\0B=2\0"sv) == "/x/y");
  CHECK(directory_in("SLURM_TMPDIR=/x=y"sv) == "/x=y");
  CHECK(directory_in("XSLURM_TMPDIR=/x\0SLURM_TMPDIRS=/y\0"sv).empty());
  CHECK(directory_in("\0\0"sv).empty());
  CHECK(directory_in("").empty());
}

TEST_CASE("started task: an environment that is not there yet is read again") {
  int looks = 0;
  const auto after = [&looks](int empty) {
    looks = 0;
    return environment_at_start(
        [&looks, empty]() -> Result<std::string> {
          return std::string(++looks <= empty ? "" : "A=1");
        },
        5);
  };
  CHECK(after(0) == "A=1");
  CHECK(looks == 1);
  CHECK(after(3) == "A=1");
  CHECK(looks == 4);
  CHECK(after(9).empty());  // a program without a variable
  CHECK(looks == 5);
  const auto gone = []() -> Result<std::string> { return system_error("environ", ESRCH); };
  CHECK(environment_at_start(gone).empty());
}

TEST_CASE("started task: a program with another directory is told of, once it has started") {
  const Scratch scratch;
  const std::string ours = scratch / "ours";
  const std::string alias = scratch / "alias";
  std::filesystem::create_directory(ours);
  std::filesystem::create_symlink(ours, alias);
  const std::string text = said(ours, "/elsewhere");
  CHECK(has(text,
            "nodestage: n1: warning: this program has SLURM_TMPDIR=/elsewhere, but data were "
            "staged in " +
                ours));
  for (const char* same : {ours.c_str(), alias.c_str(), static_cast<const char*>(nullptr)})
    CHECK(said(ours, same).empty());
}
