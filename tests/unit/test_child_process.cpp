#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>

#include "common/os/child.hpp"

using namespace nodestage;

namespace {

// Ends by a signal only.
int wait_for_ever() {
  for (;;) ::pause();
}

bool is_there(pid_t pid) { return ::kill(pid, 0) == 0; }

}  // namespace

TEST_CASE("what its body returns is a child's exit code") {
  auto child = ChildProcess::start(Orphan::killed, [] { return 7; });
  REQUIRE(child);
  CHECK(*child);
  const auto status = child->wait();
  REQUIRE(status);
  CHECK(exit_code_of(*status) == 7);
  CHECK_FALSE(*child);
  CHECK_FALSE(child->wait());
  CHECK_FALSE(child->reap());
}

TEST_CASE("a child that runs is not reaped, and one that a signal has ended says so") {
  auto child = ChildProcess::start(Orphan::killed, wait_for_ever);
  REQUIRE(child);
  CHECK_FALSE(child->reap());
  CHECK(*child);
  child->signal(SIGKILL);  // doctest has handlers for the milder ones
  CHECK(exit_code_of(child->wait().value_or(0)) == 128 + SIGKILL);
}

TEST_CASE("nothing is sent to a child that was waited for") {
  auto child = ChildProcess::start(Orphan::killed, [] { return 0; });
  REQUIRE(child);
  static_cast<void>(child->wait());
  child->signal_group(SIGKILL);  // kill(0) would be this test's own group
  child->signal(SIGKILL);
  CHECK(child->pid() == 0);
}

TEST_CASE("an owner's end is that of its child, unless it leaves it") {
  pid_t killed = 0;
  pid_t left = 0;
  {
    auto one = ChildProcess::start(Orphan::killed, wait_for_ever);
    auto other = ChildProcess::start(Orphan::left, wait_for_ever);
    REQUIRE(one);
    REQUIRE(other);
    const ChildProcess moved = std::move(*one);
    CHECK_FALSE(*one);
    killed = moved.pid();
    left = other->pid();
  }
  CHECK_FALSE(is_there(killed));
  REQUIRE(is_there(left));
  ::kill(left, SIGKILL);
  CHECK(::waitpid(left, nullptr, 0) == left);
}

TEST_CASE("a child that another part of the program has waited for is given up") {
  auto child = ChildProcess::start(Orphan::killed, [] { return 0; });
  REQUIRE(child);
  REQUIRE(::waitpid(child->pid(), nullptr, 0) == child->pid());
  CHECK_FALSE(child->reap());
  CHECK_FALSE(*child);
}
