#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>

#include <ctime>

#include "common/os/child.hpp"
#include "common/os/file.hpp"
#include "plugin/stage_wait.hpp"

using namespace nodestage;

namespace {

struct Death {
  int signal = 0;
  std::string words;
};

// Of a process that receives the signal while it waits.
Death die(int signal, const DeadlySignals::Words& words) {
  auto pipe = make_pipe();
  REQUIRE(pipe);
  auto child = ChildProcess::start(Orphan::killed, [&] {
    const DeadlySignals signals(pipe->write.get(), words);
    DeadlySignals::note_progress("a.tar: 1.0 of 9.0 GiB (11%)");
    DeadlySignals::note_progress("a.tar: 2.0 of 9.0 GiB (22%)");
    ::raise(signal);
    return 0;
  });
  REQUIRE(child);
  pipe->write.reset();
  const auto text = read_all(pipe->read.get(), 4096);
  REQUIRE(text);
  const int status = child->wait().value_or(0);
  return {WIFSIGNALED(status) ? WTERMSIG(status) : 0, *text};
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
