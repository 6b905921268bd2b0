#include <doctest/doctest.h>
#include <sys/socket.h>

#include <array>

#include "daemon/peer/channel.hpp"

using namespace nodestage;

TEST_CASE("what a daemon that has gone did not read was not taken, and nobody hears that it was") {
  std::array<int, 2> ends{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) ==
          0);
  Fd daemon(ends[1]);
  asio::io_context io;
  Channel channel(io, Fd(ends[0]));
  int taken = 0;
  const PeerReceived note{std::string(2'000, 'n'), "127.0.0.1"};
  while (channel.unsent() < 3) channel.say(note, [&taken] { ++taken; });
  const int before = taken;
  CHECK(before > 0);
  SUBCASE("it reads: all are taken") {
    std::array<char, 4'096> packet{};
    while (taken < before + 3) {
      while (::recv(daemon.get(), packet.data(), packet.size(), 0) > 0) {
      }
      io.restart();
      io.poll();
    }
    CHECK(channel.unsent() == 0);
  }
  SUBCASE("it ends with packets unread") {
    daemon.reset();
    io.run();
    CHECK(taken == before);
    channel.say(note, [&taken] { ++taken; });
    CHECK(taken == before);
  }
}
