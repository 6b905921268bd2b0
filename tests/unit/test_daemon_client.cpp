#include <doctest/doctest.h>

#include "common/wire/daemon_client.hpp"
#include "fake_daemon.hpp"
#include "scratch.hpp"

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
    const auto reply = ask_daemon(scratch / "s", exited(), soon(), soon());
    REQUIRE(reply);
    CHECK(std::holds_alternative<Accepted>(reply.value()));
  }
  REQUIRE(std::holds_alternative<Exited>(heard));
  CHECK(std::get<Exited>(heard).job == 7);
}

TEST_CASE("client: the largest message arrives whole") {
  const Scratch scratch;
  Failed large;
  large.cause.assign(k_max_message_bytes - 64, 'x');
  const FakeDaemon daemon(scratch / "s", {[&](FakePeer& peer) {
                            static_cast<void>(peer.hear());
                            peer.say(large);
                          }});
  const auto reply = ask_daemon(scratch / "s", exited(), soon(), soon());
  REQUIRE(reply);
  CHECK(std::get<Failed>(reply.value()).cause == large.cause);
}

TEST_CASE("client: no daemon is told apart from other faults") {
  const Scratch scratch;
  const auto missing = reach_daemon(scratch / "s", Clock::now());
  REQUIRE_FALSE(missing);
  CHECK(is_daemon_away(missing.error()));
  const auto too_long = reach_daemon(scratch / std::string(200, 'x'), soon());
  REQUIRE_FALSE(too_long);
  CHECK(too_long.error().code == ENAMETOOLONG);
  CHECK_FALSE(is_daemon_away(too_long.error()));
}

TEST_CASE("client: a socket that nobody serves any more counts as away") {
  const Scratch scratch;
  { const FakeDaemon gone(scratch / "s", {}); }
  const auto refused = reach_daemon(scratch / "s", Clock::now());
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ECONNREFUSED);
  CHECK(is_daemon_away(refused.error()));
}

TEST_CASE("client: a daemon that does not answer ends at the deadline") {
  const Scratch scratch;
  const FakeDaemon daemon(scratch / "s", {[](FakePeer& peer) {
                            static_cast<void>(peer.hear());
                            static_cast<void>(peer.hear());  // until the client has gone
                          }});
  const auto reply = ask_daemon(scratch / "s", exited(), soon(), in_ms(30));
  REQUIRE_FALSE(reply);
  CHECK(reply.error().code == ETIMEDOUT);
}

TEST_CASE("client: a connection that breaks is tried again") {
  const Scratch scratch;
  const FakeDaemon daemon(scratch / "s", {[](FakePeer&) {},
                                          [](FakePeer& peer) {
                                            static_cast<void>(peer.hear());
                                            peer.say(Accepted{});
                                          }});
  CHECK(ask_daemon(scratch / "s", exited(), soon(), soon()));
}

TEST_CASE("client: it is tried no longer than asked") {
  const Scratch scratch;
  const FakeDaemon daemon(scratch / "s", {[](FakePeer&) {}});
  const auto reply = ask_daemon(scratch / "s", exited(), Clock::now(), soon());
  REQUIRE_FALSE(reply);
  CHECK(is_daemon_away(reply.error()));
}
