#include <doctest/doctest.h>
#include <sys/socket.h>

#include <array>
#include <list>
#include <set>

#include "daemon/peer/channel.hpp"
#include "daemon/peer/outgoing.hpp"
#include "peer_run.hpp"

using namespace nodestage;

namespace {

// One that delivers to `port`.
PeerSettings settings(std::uint16_t port, std::uint32_t io_wait_s = 20) {
  return {port,
          io_wait_s,
          1024,
          {"n1=127.0.0.1", "n2=127.0.0.2", "n2=127.0.0.1", "n3=127.0.0.2", "n3=127.0.0.3"}};
}

std::string fault_of(PeerRun& peer, const std::string& node, const std::string& credential) {
  peer.say(PeerDeliver{42, node, credential});
  const auto delivered = peer.hear_kind<PeerDelivered>();
  CHECK(delivered.id == 42);
  return delivered.fault;
}

// What the sender says when the other side answers `reply` and closes.
std::string fault_after(const std::string& reply) {
  const Port port;
  PeerRun sender(settings(port.number()));
  sender.say(PeerDeliver{1, "n1", "abc"});
  {
    const Caller caller = port.accept();
    caller.send(reply);
    caller.finish();
    CHECK(caller.rest() == frame("abc"));
  }
  return sender.hear_kind<PeerDelivered>().fault;
}

std::string at(const std::string& place, const Port& port) {
  return place + " port " + std::to_string(port.number());
}

}  // namespace

TEST_CASE("a note goes from one peer to the other") {
  PeerRun receiver({0, 20, 1024, {"n1=127.0.0.1"}});
  PeerRun sender(settings(receiver.port()));
  CHECK(fault_of(sender, "n1", "good" + note_from("n1")).empty());
  CHECK(receiver.hear_kind<PeerReceived>().payload == note_from("n1"));
  CHECK(fault_of(sender, "here", "").empty());  // only looks
  const std::string place = "n1 (127.0.0.1) port " + std::to_string(receiver.port());
  CHECK(fault_of(sender, "n1", "bad") == place + " refused it: see the log of nodestaged there");
  CHECK(receiver.hear_kind<PeerDropped>().why == "not a good credential");
}

TEST_CASE("the longest credential fits") {
  PeerRun receiver({0, 20, 1024, {"n1=127.0.0.1"}});
  PeerRun sender(settings(receiver.port()));
  CHECK_FALSE(fault_of(sender, "n1", std::string(k_max_credential_bytes, 'x')).empty());
  CHECK(receiver.hear_kind<PeerDropped>().why == "not a good credential");
}

TEST_CASE("a port where nobody listens is named, with each address that was tried") {
  Port port;
  port.close();
  PeerRun sender(settings(port.number()));
  CHECK(fault_of(sender, "n1", "x") == at("n1 (127.0.0.1)", port) + ": Connection refused");
  CHECK(fault_of(sender, "n1", "") == at("n1 (127.0.0.1)", port) + ": Connection refused");
  CHECK(fault_of(sender, "n3", "x") == at("n3 (127.0.0.2)", port) + ": Connection refused; " +
                                           at("n3 (127.0.0.3)", port) + ": Connection refused");
}

TEST_CASE("an address that does not answer is followed by the next") {
  const Port port;  // on 127.0.0.1 only
  PeerRun sender(settings(port.number()));
  CHECK(fault_of(sender, "n2", "").empty());
}

TEST_CASE("a name that is not known is named") {
  PeerRun sender(settings(1));
  CHECK(fault_of(sender, "n9", "x") == "n9: the name is not known here (test)");
  CHECK(fault_of(sender, "n9", "x") == "n9: the name is not known here (test)");  // as it was kept
  CHECK(fault_of(sender, "", "x") == "not the name of a node");
}

TEST_CASE("a peer that closes without an answer, or is another program, is named as such") {
  CHECK(fault_after("A").empty());
  CHECK(fault_after("").find(": closed without an answer") != std::string::npos);
  CHECK(fault_after("HTTP/1.1").find("what answers there is not nodestage-peer") !=
        std::string::npos);
}

TEST_CASE("a resolver that hangs costs a delivery its time and no more") {
  Gate gate;
  PeerRun sender(settings(1, 1), {open_fake, gate.before(resolve_loopback), {}});
  sender.say(PeerDeliver{1, "slow", "x"});
  sender.say(PeerDeliver{2, "n1", "x"});
  CHECK(sender.hear_kind<PeerDelivered>().id == 2);  // refused: it needs no look-up
  const auto slow = sender.hear_kind<PeerDelivered>();
  CHECK(slow.fault == "slow: the name was not looked up within 1 s: does the resolver answer?");
  gate.open();
  CHECK(fault_of(sender, "here", "x").find("Connection refused") != std::string::npos);
}

TEST_CASE("when nobody answers, 256 are under way at a time, the rest in order") {
  constexpr std::uint64_t k_orders = k_max_deliveries + 44;
  const Port port;
  PeerRun sender(settings(port.number(), 1));
  for (std::uint64_t id = 0; id < k_orders; ++id) sender.say(PeerDeliver{id, "n1", "x"});
  std::list<Caller> silent;
  while (silent.size() < k_max_deliveries) silent.push_back(port.accept());
  CHECK_FALSE(port.is_called(100));
  std::set<std::uint64_t> first;
  while (first.size() < k_max_deliveries) {
    const auto delivered = sender.hear_kind<PeerDelivered>();
    CHECK(delivered.fault == at("n1 (127.0.0.1)", port) + ": no answer within 1 s");
    first.insert(delivered.id);
  }
  CHECK(*first.rbegin() == k_max_deliveries - 1);
  CHECK(port.is_called(k_patience_ms));
  CHECK(sender.end() == 0);  // with 44 under way
}

TEST_CASE("a thousand notes reach one peer") {
  constexpr std::uint64_t k_notes = 1000;
  PeerRun receiver({0, 20, 1024, {"n1=127.0.0.1"}});
  PeerRun sender(settings(receiver.port()));
  std::set<std::uint64_t> ids;
  const auto hear_one = [&ids, &sender] {
    const auto delivered = sender.hear_kind<PeerDelivered>();
    CHECK(delivered.fault.empty());
    ids.insert(delivered.id);
  };
  std::uint64_t received = 0;
  for (std::uint64_t id = 0; id < k_notes; ++id) {
    sender.say(PeerDeliver{id, "n1", "good" + note_from("n1")});
    if (id >= 100) receiver.hear_kind<PeerReceived>(), ++received;
  }
  while (received < k_notes) receiver.hear_kind<PeerReceived>(), ++received;
  while (ids.size() < k_notes) hear_one();
}

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
