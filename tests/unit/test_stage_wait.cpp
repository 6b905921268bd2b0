#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

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

FakeDaemon::Script answer(const Message& message) {
  return [message](FakePeer& peer) {
    static_cast<void>(peer.hear());
    peer.say(message);
  };
}

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
    const auto result = trial.run({answer(row.answered)});
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
  CHECK(trial.run({dies, dies, answer(Ready{})}).verdict == StageVerdict::go_on);
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
    CHECK(trial.run({answer(Refused{reason, "some reason"})}).verdict == StageVerdict::fail);
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
  CHECK(ready.run({answer(Ready{{"NODESTAGE_DATASET=/l/d"}, {}})}).environment.size() == 1);

  const Message others[] = {Progress{}, Failed{"cause", {}}, Refused{RefusalReason::fault, "why"}};
  for (const auto& message : others) {
    Trial trial;
    trial.order.patience = StageWait::none;
    const auto result = trial.run({answer(message)});
    CHECK(result.verdict == StageVerdict::go_on);
    CHECK(result.environment.empty());
    CHECK(trial.said.empty() == std::holds_alternative<Progress>(message));
  }
}
