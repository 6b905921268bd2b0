#include <doctest/doctest.h>

#include <numeric>
#include <string>
#include <vector>

#include "common/wire/hkdf.hpp"
#include "daemon/worker/relay/sealed_stream.hpp"
#include "hex.hpp"
#include "relay_peer.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

Result<SealedStream> meet(Fd fd, RelaySide side, const RelayKey& key = k_test_key,
                          RelayClock::time_point until = soon()) {
  return SealedStream::meet(PeerSocket(std::move(fd), k_never_stop), side, key, until);
}

int code_of(const Result<SealedStream>& met) { return met ? 0 : met.error().code; }

// A server that has met a client, which the test plays.
struct Met {
  RawPeer peer;
  SealedStream stream;
};
Met met_client() {
  Ends ends;
  RawPeer peer(std::move(ends.one));
  std::thread client([&peer] { peer.meet_as_client(); });
  auto stream = must(meet(std::move(ends.other), RelaySide::server));
  client.join();
  return {std::move(peer), std::move(stream)};
}

// "" is a frame that did not come in time; "!N" a fault with that code.
std::string received(SealedStream& stream, RelayClock::time_point until = soon()) {
  const auto frame = stream.receive(until);
  if (!frame) return "!" + std::to_string(frame.error().code);
  if (!*frame) return "";
  const auto* text = reinterpret_cast<const char*>((*frame)->data.data());
  return std::to_string((*frame)->kind) + ":" + std::string(text, (*frame)->data.size());
}

RelayKey some_key() {
  RelayKey key;
  std::iota(key.begin(), key.end(), std::uint8_t{0});
  return key;
}

RelayNonces some_nonces() {
  RelayNonces nonces;
  nonces.client.fill(0xc0);
  nonces.server.fill(0x50);
  return nonces;
}

const std::string k_bad = "!" + std::to_string(EBADMSG);
const auto k_always = [] { return Status(); };

}  // namespace

TEST_CASE("frames are what other releases make of the same keys") {
  auto cipher =
      FrameCipher::sealing(must(derive_keys(some_key(), RelaySide::client, some_nonces())));
  REQUIRE(cipher);
  const auto next = [&cipher] {
    std::string frame = std::string("\x05\0\0\0\x03", 5) + "hello" + std::string(16, '\0');
    const auto bytes = std::as_writable_bytes(std::span(frame));
    REQUIRE(
        cipher->seal(bytes.first(5), bytes.subspan(5, 5), bytes.subspan(5, 5), bytes.last<16>()));
    return hex(frame);
  };
  CHECK(next() == "0500000003b2a80d9bc11661defb5d3c00552a5a94fbfc9b8444");
  CHECK(next() == "0500000003a182eab4d1355456ce6ab141c1f9e5becd6c486080");
  for (int i = 2; i < 258; ++i) next();
  CHECK(next() == "0500000003a618ed021b999923f36e373fb7fcb32c8a027e5e54");
}

TEST_CASE("two sides with the same key meet, and exchange frames of every size") {
  Ends ends;
  std::optional<Result<SealedStream>> client;
  std::thread other([&] { client.emplace(meet(std::move(ends.one), RelaySide::client)); });
  auto server = meet(std::move(ends.other), RelaySide::server);
  other.join();
  REQUIRE((server && *client));
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, k_most_frame_bytes}) {
    const std::string data(size, 'x');
    std::thread sender(
        [&] { REQUIRE((*client)->send(7, std::as_bytes(std::span(data)), k_always)); });
    CHECK((received(*server) == "7:" + data));
    sender.join();
  }
  REQUIRE(server->send(9, {}, k_always));
  CHECK(received(**client) == "9:");
  const std::string large(k_most_frame_bytes + 1, 'x');
  CHECK_FALSE(server->send(7, std::as_bytes(std::span(large)), k_always));
}

TEST_CASE("who does not know the key gets a greeting or a proof, and nothing else") {
  struct Row {
    RelaySide side;
    std::string forged;
    std::size_t bytes;  // what the other side says
  };
  for (const Row& row : {Row{RelaySide::client, std::string(64, 'n'), 40},
                         Row{RelaySide::server, "nsrelay1" + std::string(64, 'n'), 64}}) {
    CAPTURE(row.bytes);
    Ends ends;
    RawPeer forged(std::move(ends.one));
    forged.send(row.forged);
    CHECK(code_of(meet(std::move(ends.other), row.side)) == EACCES);
    CHECK(forged.read(1000).size() == row.bytes);
  }
}

TEST_CASE("another job's key opens nothing, on either side") {
  for (const auto side : {RelaySide::client, RelaySide::server}) {
    Ends ends;
    RawPeer peer(std::move(ends.one));
    std::thread other([&] {
      if (side == RelaySide::server) return peer.meet_as_client({9});
      peer.meet_as_server({9});
    });
    CHECK(code_of(meet(std::move(ends.other), side)) == EACCES);
    other.join();
  }
}

TEST_CASE("what an honest client said once is of no use later") {
  std::string said;
  {
    Met met = met_client();
    said = met.peer.said;
  }
  Ends ends;
  const RawPeer forged(std::move(ends.one));
  forged.send(said);
  CHECK(code_of(meet(std::move(ends.other), RelaySide::server)) == EACCES);
}

TEST_CASE("a server's own proof, sent back to it, proves nothing") {
  Ends ends;
  const RawPeer forged(std::move(ends.one));
  std::thread other([&forged] {
    forged.send("nsrelay1" + std::string(32, 'n'));
    forged.send(forged.read(64).substr(32));
  });
  CHECK(code_of(meet(std::move(ends.other), RelaySide::server)) == EACCES);
  other.join();
}

TEST_CASE("who speaks another protocol, or stops in the middle of a greeting, is refused") {
  struct Row {
    const char* said;
    int code;
  };
  for (const Row& row : {Row{"GET / HTTP/1.1\r\n", EPROTO}, {"nsrelay1abc", ECONNRESET}}) {
    CAPTURE(row.said);
    Ends ends;
    RawPeer(std::move(ends.one)).send(row.said);
    CHECK(code_of(meet(std::move(ends.other), RelaySide::server)) == row.code);
  }
}

TEST_CASE("a greeting that comes a byte at a time does not last longer than it may") {
  Ends ends;
  const RawPeer slow(std::move(ends.one));
  std::atomic<bool> is_done = false;
  std::thread other([&] {
    for (int i = 0; i < 40 && !is_done; ++i) {
      slow.send(std::string("nsrelay1").substr(static_cast<std::size_t>(i) % 8, 1));
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  });
  const auto until = RelayClock::now() + std::chrono::milliseconds(200);
  CHECK(code_of(meet(std::move(ends.other), RelaySide::server, k_test_key, until)) == ETIMEDOUT);
  is_done = true;
  other.join();
}

TEST_CASE("a bit that was flipped anywhere in a frame is seen") {
  // The last bit of each byte, so that the length stays within what has come, or ends it.
  constexpr std::size_t k_bytes = 5 + 11 + 16;
  for (std::size_t at = 0; at < k_bytes; ++at) {
    CAPTURE(at);
    Met met = met_client();
    std::string frame = met.peer.seal(4, "hello world");
    REQUIRE(frame.size() == k_bytes);
    frame[at] = static_cast<char>(frame[at] ^ 1);
    met.peer.send(frame);
    met.peer.close();
    const std::string got = received(met.stream);
    CHECK((got == k_bad || got == "!" + std::to_string(ECONNRESET) ||
           got == "!" + std::to_string(EPROTO)));
    if (at >= 4) CHECK(got == k_bad);
  }
}

TEST_CASE("frames that are moved, repeated or left out do not open") {
  for (const std::string_view order : {"10", "00", "1"}) {
    CAPTURE(order);
    Met met = met_client();
    const std::string frames[] = {met.peer.seal(4, "zero"), met.peer.seal(4, "one")};
    for (const char which : order) met.peer.send(frames[which - '0']);
    if (order == "00") CHECK(received(met.stream) == "4:zero");
    CHECK(received(met.stream) == k_bad);
  }
}

TEST_CASE("a frame of the other direction does not open") {
  Met met = met_client();
  REQUIRE(met.stream.send(4, std::as_bytes(std::span("own", 3)), k_always));
  met.peer.send(met.peer.read(5 + 3 + 16));
  CHECK(received(met.stream) == k_bad);
}

TEST_CASE("a stream that was cut is a fault, whether between two frames or in one") {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{3}, std::size_t{9}}) {
    Met met = met_client();
    met.peer.send(met.peer.seal(4, "hello").substr(0, bytes));
    met.peer.close();
    CHECK(received(met.stream) == "!" + std::to_string(ECONNRESET));
  }
}

TEST_CASE("a length that is too large is refused before anything is read for it") {
  for (const std::string& length : {std::string("\x01\x00\x04\x00", 4), std::string(4, '\xff')}) {
    Met met = met_client();
    met.peer.send(length + "\x04");
    CHECK(received(met.stream) == "!" + std::to_string(EPROTO));
  }
}

TEST_CASE("a frame may come in pieces, and what has come of it is kept") {
  Met met = met_client();
  const std::string frame = met.peer.seal(4, "hello");
  for (std::size_t i = 0; i + 1 < frame.size(); ++i) {
    met.peer.send(frame.substr(i, 1));
    CHECK(received(met.stream, RelayClock::now()).empty());
  }
  met.peer.send(frame.substr(frame.size() - 1));
  CHECK(received(met.stream) == "4:hello");
}

TEST_CASE("an ask that makes no sense is refused") {
  const RelayAsk good{"/data/x.tar", {100, 1, 2}, 50};
  const auto decoded = [](const std::string& text) {
    return decode_ask(std::as_bytes(std::span(text)));
  };
  const std::string text = encode_ask(good);
  const auto back = must(decoded(text));
  CHECK(back.path == good.path);
  CHECK(back.identity == good.identity);
  CHECK(back.offset == 50);
  CHECK_FALSE(decoded(text + "x"));
  CHECK_FALSE(decoded(text.substr(0, text.size() - 1)));
  CHECK_FALSE(decoded(""));
  CHECK_FALSE(decoded(encode_ask({"relative", {100, 1, 2}, 0})));
  CHECK_FALSE(decoded(encode_ask({"", {100, 1, 2}, 0})));
  CHECK_FALSE(decoded(encode_ask({std::string("/a\0b", 4), {100, 1, 2}, 0})));
  CHECK_FALSE(decoded(encode_ask({"/" + std::string(k_max_relay_path, 'a'), {100, 1, 2}, 0})));
  CHECK_FALSE(decoded(encode_ask({"/data/x.tar", {100, 1, 2}, 101})));
}

namespace {

std::string proof_of(RelaySide side) {
  return hex_of(must(prove(some_key(), side, some_nonces())));
}

std::string keys_of(RelaySide side) {
  const auto keys = must(derive_keys(some_key(), side, some_nonces()));
  return hex_of(keys.key) + hex_of(keys.nonce);
}

}  // namespace

TEST_CASE("proofs and keys are what other releases make of the same key and nonces") {
  CHECK(proof_of(RelaySide::client) ==
        "e9f224f373efa9c5fca6850611e5ca337e80236d79a3343a9703310287eee8f2");
  CHECK(proof_of(RelaySide::server) ==
        "eab9f6cb29bd644ac22fbf1839cd2ebda970f21f52374327fb2151cec3441e9e");
  CHECK(keys_of(RelaySide::client) ==
        "157faa3efb84065a6d804555bb59c5a99d0e8c467eb4a75f8d054146a55e4ab9"
        "d479f9517964562ac49bfcd8");
  CHECK(keys_of(RelaySide::server) ==
        "71ae4da2804124770d569d7445c937591e8c6fd3e8ffaff67ff9ae4b5c585034"
        "48ca7b404e3a8a754dc39c6f");
}

TEST_CASE("HKDF as in the first example of RFC 5869") {
  const std::string secret(22, '\x0b');
  std::string salt(13, '\0');
  std::iota(salt.begin(), salt.end(), '\0');
  std::string info;
  for (int i = 0xf0; i <= 0xf9; ++i) info.push_back(static_cast<char>(i));
  std::vector<std::uint8_t> out(42);
  REQUIRE(hkdf_sha256(secret, salt, info, out));
  CHECK(hex_of(out) ==
        "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"
        "34007208d5b887185865");
}

TEST_CASE("no two nonces are the same") {
  const auto one = new_relay_nonce();
  const auto other = new_relay_nonce();
  REQUIRE((one && other));
  CHECK(*one != *other);
}
