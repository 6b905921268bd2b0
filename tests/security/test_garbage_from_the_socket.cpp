// Attack, or a daemon of another release: what comes out of the socket is no message, too long, or
// none that was asked for. The hook must end with a fault, in time.
#include <doctest/doctest.h>

#include "../unit/fake_daemon.hpp"
#include "common/wire/daemon_client.hpp"
#include "scratch.hpp"

using namespace nodestage;

TEST_CASE("garbage is a fault and not a daemon that is away") {
  const std::string packets[] = {
      "x",
      std::string("\x01\xff", 2),
      std::string("\x02\x10", 2),                  // another version
      std::string("\x01\x13\xff\xff\xff\xff", 6),  // ready with 2^32 - 1 variables
      std::string("\x01\x14\xff\xff\xff\x7f"
                  "abc",
                  9),  // failed with a cause that is cut off
      encode_message(Accepted{}) + "more",
      std::string(k_max_message_bytes + 1, '\x01'),
  };
  for (const auto& packet : packets) {
    const Scratch scratch;
    const FakeDaemon daemon(scratch / "s", {[&](FakePeer& peer) {
                              static_cast<void>(peer.hear());
                              peer.say_raw(packet);
                            }});
    const Deadline limit = Clock::now() + std::chrono::seconds(5);
    const auto reply = ask_daemon(scratch / "s", StatusQuery{}, limit, limit);
    REQUIRE_FALSE(reply);
    CHECK(reply.error().code == EPROTO);
  }
}
