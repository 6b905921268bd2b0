#include <doctest/doctest.h>

#include <chrono>
#include <list>
#include <map>

#include "daemon/peer/addresses.hpp"
#include "daemon/peer/incoming.hpp"
#include "peer_run.hpp"
#include "texts.hpp"

using namespace nodestage;
using namespace std::chrono_literals;

namespace {

PeerSettings incoming_settings(std::uint32_t io_wait_s = 20, std::uint32_t max_connections = 1024) {
  return {0, io_wait_s, max_connections, {"n1=127.0.0.1", "n2=127.0.0.9"}};
}

// What a peer says and does when `bytes` come and then the end.
std::string why_dropped(PeerRun& peer, const std::string& bytes) {
  const Caller caller(peer.port());
  caller.send(bytes);
  caller.finish();
  CHECK(caller.rest().empty());
  return peer.hear_kind<PeerDropped>().why;
}

std::string reply_to(PeerRun& peer, const std::string& credential) {
  const Caller caller(peer.port());
  caller.send(frame(credential));
  return caller.rest();
}

}  // namespace

TEST_CASE("a good note is with the daemon before its sender hears that it is taken") {
  PeerRun peer(incoming_settings());
  CHECK(std::get<PeerListening>(peer.hear()).fault.empty());
  CHECK(reply_to(peer, "good" + note_from("n1")) == "A");
  REQUIRE_FALSE(peer.says_nothing());
  CHECK(std::get<PeerReceived>(peer.hear()).payload == note_from("n1"));
  CHECK(reply_to(peer, "good" + note_from("here")) == "A");  // a name that is looked up
  CHECK(peer.end() == 0);
}

TEST_CASE("a note whose bytes come one by one is taken") {
  PeerRun peer(incoming_settings());
  const Caller caller(peer.port());
  for (const char byte : frame("good" + note_from("n1"))) caller.send(std::string(1, byte));
  CHECK(caller.rest() == "A");
}

TEST_CASE("a credential that does not open is refused, and the log says why") {
  PeerRun peer(incoming_settings());
  CHECK(reply_to(peer, "bad" + note_from("n1")) == "R");
  const auto dropped = peer.hear_kind<PeerDropped>();
  CHECK(dropped.address == "127.0.0.1");
  CHECK(dropped.why == "not a good credential");
}

TEST_CASE("a payload that is no note is refused") {
  PeerRun peer(incoming_settings());
  CHECK(reply_to(peer, "good") == "R");
  CHECK(reply_to(peer, "good" + note_from("n1") + "x") == "R");
  CHECK(reply_to(peer, "good" + note_from(std::string(300, 'n'))) == "R");
}

TEST_CASE("a note of one node from another's address is refused") {
  PeerRun peer(incoming_settings());
  CHECK(reply_to(peer, "good" + note_from("n2")) == "R");
  CHECK(has(peer.hear_kind<PeerDropped>().why, "127.0.0.9"));
  CHECK(reply_to(peer, "good" + note_from("nowhere")) == "R");
  CHECK(peer.hear_kind<PeerDropped>().why == "nowhere: the name is not known here (test)");
}

TEST_CASE("garbage, half frames and lengths that are not allowed are dropped without an answer") {
  PeerRun peer(incoming_settings());
  CHECK(has(why_dropped(peer, "GET / HTTP/1.1\r\n\r\n"), "is not a note of nodestage-peer"));
  CHECK(has(why_dropped(peer, "NSP"), "closed after 3 bytes"));
  CHECK(has(why_dropped(peer, frame("abcdef").substr(0, 11)), "after 3 of 6 bytes"));
  CHECK(has(why_dropped(peer, frame("")), "a frame of 0 bytes"));
  CHECK(has(why_dropped(peer, std::string("NSP1\x01\0\x01\0", 8)), "a frame of 65537 bytes"));
  CHECK(has(why_dropped(peer, "NSP1\xff\xff\xff\xff"), "a frame of 4294967295 bytes"));
  CHECK(reply_to(peer, "good" + note_from("n1")) == "A");
}

TEST_CASE("who only looks whether somebody listens is not worth a line") {
  PeerRun peer(incoming_settings());
  peer.hear_kind<PeerListening>();
  const Caller looker(peer.port());
  looker.finish();
  CHECK(looker.rest().empty());
  CHECK(peer.says_nothing());
}

TEST_CASE("an idle connection is dropped when its time is over") {
  PeerRun peer(incoming_settings(1));
  const Caller idle(peer.port());
  const Caller half(peer.port());
  half.send("NSP1");
  CHECK(idle.rest().empty());
  CHECK(half.rest().empty());
  CHECK(peer.hear_kind<PeerDropped>().why == "no whole frame came within 1 s");
  CHECK(peer.hear_kind<PeerDropped>().why == "no whole frame came within 1 s");
}

TEST_CASE("a check that takes too long is not waited for, and what it finds is not lost") {
  Gate gate;
  PeerRun peer(incoming_settings(1), {gate.before(open_fake), resolve_loopback, {}});
  CHECK(reply_to(peer, "good" + note_from("n1")).empty());
  CHECK(has(peer.hear_kind<PeerDropped>().why, "not checked within 1 s"));
  gate.open();
  CHECK(peer.hear_kind<PeerReceived>().payload == note_from("n1"));
}

TEST_CASE("many idle connections make room for a good one") {
  PeerRun peer(incoming_settings(20, 64));
  std::list<Caller> idle;
  for (int i = 0; i < 200; ++i) idle.emplace_back(peer.port());
  CHECK(reply_to(peer, "good" + note_from("n1")) == "A");
  CHECK(idle.front().rest().empty());  // closed
  CHECK(has(peer.hear_kind<PeerDropped>().why, "64 connections were open"));
}

TEST_CASE("an address with many idle connections does not keep out one that has few") {
  PeerRun peer(incoming_settings(20, 64));
  const Caller slow(peer.port(), "127.0.0.9");  // the oldest of all
  std::list<Caller> idle;
  for (int i = 0; i < 200; ++i) idle.emplace_back(peer.port());
  const Caller other(peer.port(), "127.0.0.9");
  other.send(frame("good" + note_from("n2")));
  CHECK(other.rest() == "A");
  CHECK(std::next(idle.begin(), 100)->rest().empty());  // closed
  slow.send(frame("good" + note_from("n2")));
  CHECK(slow.rest() == "A");
}

TEST_CASE("the silent connection that is first to go") {
  asio::io_context io;
  SilentConnections silent;
  std::map<std::uint64_t, Connection::Self> all;
  const auto add = [&](std::uint64_t number, const char* address) {
    all[number] =
        std::make_shared<Connection>(asio::ip::tcp::socket(io), asio::ip::make_address(address));
    silent.add(number, all[number]);
  };
  const auto first = [&](std::size_t share) { return silent.first_to_go(share).connection; };
  const auto remove = [&](std::uint64_t number) { silent.remove(number, all[number]->source()); };
  add(1, "10.0.0.1");
  add(2, "10.0.0.2");
  CHECK(first(0) == all[1]);
  add(3, "10.0.0.2");
  // The oldest of all, unless one address has more than its share.
  CHECK(first(2) == all[1]);
  CHECK(silent.first_to_go(2).of_address == 1);
  CHECK(first(1) == all[2]);
  CHECK(silent.first_to_go(1).of_address == 2);
  remove(2);
  CHECK(first(1) == all[1]);
  add(4, "10.0.0.3");
  remove(1);
  remove(1);
  CHECK(silent.size() == 2);
  CHECK(first(1) == all[3]);
  remove(3);
  remove(4);
  CHECK(silent.empty());
}

TEST_CASE("more connections than the process can have descriptors are not accepted") {
  PeerRun peer(incoming_settings(20, 1024), {open_fake, resolve_loopback, {}, 100});
  std::list<Caller> idle;
  for (int i = 0; i < 80; ++i) idle.emplace_back(peer.port());
  CHECK(idle.front().rest().empty());
  CHECK(has(peer.hear_kind<PeerDropped>().why, "50 connections were open"));
}

TEST_CASE("nodes that report at the same moment are served in turn, however many they are") {
  constexpr int k_nodes = 100;
  Gate gate;
  PeerRun peer(incoming_settings(20, 8), {gate.before(open_fake), resolve_loopback, {}});
  std::list<Caller> nodes;
  for (int i = 0; i < k_nodes; ++i) {
    nodes.emplace_back(peer.port());
    nodes.back().send(frame("good" + note_from("n1")));
  }
  gate.open();
  for (const Caller& node : nodes) CHECK(node.rest() == "A");
  for (int i = 0; i < k_nodes; ++i) peer.hear_kind<PeerReceived>();
  CHECK(peer.says_nothing());
}

TEST_CASE("drops are told fifty a second, and the rest counted") {
  constexpr std::uint64_t k_drops = 300;
  PeerRun peer(incoming_settings());
  for (std::uint64_t i = 0; i < k_drops; ++i) {
    const Caller caller(peer.port());
    caller.send("GARBAGE!");
    static_cast<void>(caller.rest());
  }
  std::uint64_t lines = 0;
  std::uint64_t counted = 0;
  while (lines + counted < k_drops) {
    const auto dropped = peer.hear_kind<PeerDropped>();
    if (has(dropped.why, "more connections")) {
      counted += std::stoull(dropped.why);
    } else {
      ++lines;
    }
  }
  CHECK(lines + counted == k_drops);
  CHECK(counted > 0);
}

TEST_CASE("when the daemon does not listen, a sender gets no answer, and no note is lost") {
  PeerRun peer(incoming_settings(1), {open_fake, resolve_loopback, {}}, 4096);
  int taken = 0;
  std::string reply = "A";
  for (int i = 0; i < 10'000 && reply == "A"; ++i) {
    reply = reply_to(peer, "good" + note_from("n1"));
    if (reply == "A") ++taken;
  }
  CHECK(reply.empty());
  CHECK(taken > 0);
  for (; taken >= 0; --taken) peer.hear_kind<PeerReceived>();  // and the one without an answer
  while (!peer.says_nothing()) peer.hear();
  CHECK(reply_to(peer, "good" + note_from("n1")) == "A");
}

TEST_CASE("a daemon whose words make no sense ends it") {
  PeerRun garbage({}, {open_fake, resolve_loopback, {}});
  garbage.say_raw("garbage");
  CHECK(garbage.wait() == 1);
  PeerRun early({0, 0, 0, {}});  // says no settings
  early.say(PeerDeliver{1, "n1", ""});
  CHECK(early.wait() == 1);
}

TEST_CASE("settings that are not allowed are told as the cause of not listening") {
  PeerRun peer({70'000, 5, 5, {}});
  CHECK(std::get<PeerListening>(peer.hear()).fault == "70000 is not a TCP port");
  CHECK(peer.wait() == 1);
  PeerRun other({0, 5, 5, {"n1=x"}});
  CHECK(has(std::get<PeerListening>(other.hear()).fault, "'n1=x'"));
  CHECK(other.wait() == 1);
}

TEST_CASE("the end of the daemon ends it at once, whatever is open") {
  PeerRun peer(incoming_settings());
  const Caller idle(peer.port());
  const Caller half(peer.port());
  half.send("NSP1");
  CHECK(peer.end() == 0);
  CHECK(idle.rest().empty());
  PeerRun unborn({0, 0, 0, {}});  // without settings
  CHECK(unborn.end() == 0);
}

TEST_CASE("addresses of the settings are used as they are, in their order") {
  AddressBook book([](const std::string&) { return Error{0, "not to be asked"}; });
  REQUIRE(book.configure({"n1=10.0.0.1", "n2=fd00::2", "n1=::ffff:10.1.0.1"}));
  CHECK(address_text(*book.find("n1")) == "10.0.0.1, 10.1.0.1");
  CHECK(address_text(**book.known("n2")) == "fd00::2");
  CHECK(book.find("n3").error().what == "n3: not to be asked");
}

TEST_CASE("what is no pair of a name and an address is refused by name") {
  for (const char* bad : {"", "n1", "=10.0.0.1", "n1=", "n1=host", "n1=10.0.0.1/8", "n1=10.0.0"}) {
    AddressBook book;
    CHECK(must_fail(book.configure({bad})).what.find("'" + std::string(bad) + "'") == 0);
  }
}

TEST_CASE("an answer is kept for a minute, a failure for five seconds") {
  int asked = 0;
  AddressBook book([&asked](const std::string& name) -> Result<Addresses> {
    ++asked;
    return resolve_loopback(name);
  });
  const auto start = Clock::time_point() + 1h;
  CHECK_FALSE(book.known("here", start));
  CHECK(book.find("here", start));
  CHECK(book.find("here", start + 59s));
  CHECK(asked == 1);
  CHECK(book.find("here", start + 60s));
  CHECK(asked == 2);
  CHECK_FALSE(book.find("gone", start));
  CHECK_FALSE(book.find("gone", start + 4s));
  CHECK(asked == 3);
  CHECK_FALSE(book.find("gone", start + 5s));
  CHECK(asked == 4);
}

TEST_CASE("the system knows localhost, and what it does not know is said so") {
  const auto found = must(resolve("localhost"));
  CHECK_FALSE(found.empty());
  for (const Address& address : found) CHECK(address.is_loopback());
  CHECK_FALSE(AddressBook().find(""));
  CHECK_FALSE(AddressBook().find(std::string("localhost\0x", 11)));
  CHECK_FALSE(AddressBook().find(std::string(300, 'n')));
}

TEST_CASE("IPv4 inside IPv6 is IPv4, and an interface makes no other host") {
  CHECK(comparable(asio::ip::make_address("::ffff:10.0.0.1")) ==
        asio::ip::make_address("10.0.0.1"));
  CHECK(comparable(asio::ip::make_address("fe80::1%1")) == asio::ip::make_address("fe80::1"));
  CHECK(comparable(asio::ip::make_address("fd00::1")) != asio::ip::make_address("fd00::2"));
}

TEST_CASE("a port that stays in use is told; one that becomes free is taken") {
  Port port;
  asio::io_context io;
  std::string fault;
  Listener hasty(io, 0ms);
  hasty.open(port.number(), [&fault](const Status& status) {
    if (!status) fault = status.error().what;
  });
  CHECK(fault == "port " + std::to_string(port.number()) + ": Address already in use");

  Listener patient(io, 10'000ms);
  bool open = false;
  patient.open(port.number(), [&open](const Status& status) { open = static_cast<bool>(status); });
  CHECK_FALSE(open);
  port.close();
  io.run();
  CHECK(open);
}
