#include <doctest/doctest.h>

#include "common/wire/daemon_client.hpp"
#include "fake_daemon.hpp"
#include "scratch.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

Deadline soon() { return Clock::now() + std::chrono::seconds(5); }
Deadline in_ms(int count) { return Clock::now() + std::chrono::milliseconds(count); }

Exited exited() { return Exited{7, 0, 0}; }

}  // namespace

TEST_CASE("client: a request and its reply") {
  const Scratch scratch;
  Message heard;
  {
    const FakeDaemon daemon(scratch / "s", {[&](FakePeer& peer) {
                              heard = peer.hear();
                              peer.say(Accepted{});
                            }});
    as<Accepted>(must(ask_daemon(scratch / "s", exited(), soon(), soon())));
  }
  CHECK(as<Exited>(heard).job == 7);
}

TEST_CASE("client: the largest message arrives whole") {
  const Scratch scratch;
  Failed large;
  large.cause.assign(k_max_message_bytes - 64, 'x');
  const FakeDaemon daemon(scratch / "s", {FakeDaemon::answer(large)});
  const auto reply = must(ask_daemon(scratch / "s", exited(), soon(), soon()));
  CHECK(as<Failed>(reply).cause == large.cause);
}

TEST_CASE("client: no daemon is told apart from other faults") {
  const Scratch scratch;
  CHECK(is_daemon_away(must_fail(reach_daemon(scratch / "s", Clock::now()))));
  const Error too_long = must_fail(reach_daemon(scratch / std::string(200, 'x'), soon()));
  CHECK(too_long.code == ENAMETOOLONG);
  CHECK_FALSE(is_daemon_away(too_long));
}

TEST_CASE("client: a socket that nobody serves any more counts as away") {
  const Scratch scratch;
  { const FakeDaemon gone(scratch / "s", {}); }
  const Error refused = must_fail(reach_daemon(scratch / "s", Clock::now()));
  CHECK(refused.code == ECONNREFUSED);
  CHECK(is_daemon_away(refused));
}

TEST_CASE("client: a daemon that does not answer ends at the deadline") {
  const Scratch scratch;
  const FakeDaemon daemon(scratch / "s", {[](FakePeer& peer) {
                            static_cast<void>(peer.hear());
                            static_cast<void>(peer.hear());  // until the client has gone
                          }});
  CHECK(must_fail(ask_daemon(scratch / "s", exited(), soon(), in_ms(30))).code == ETIMEDOUT);
}

TEST_CASE("client: a connection that breaks is tried again") {
  const Scratch scratch;
  const FakeDaemon daemon(scratch / "s", {[](FakePeer&) {}, FakeDaemon::answer(Accepted{})});
  CHECK(ask_daemon(scratch / "s", exited(), soon(), soon()));
}

TEST_CASE("client: it is tried no longer than asked") {
  const Scratch scratch;
  const FakeDaemon daemon(scratch / "s", {[](FakePeer&) {}});
  CHECK(is_daemon_away(must_fail(ask_daemon(scratch / "s", exited(), Clock::now(), soon()))));
}
