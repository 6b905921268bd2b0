#include <doctest/doctest.h>

#include "common/wire/peer_note.hpp"
#include "hex.hpp"

using namespace nodestage;

namespace {

std::vector<PeerMessage> one_peer_message_of_each() {
  return {PeerSettings{6825, 5, 1024, {"n1=10.0.0.1", "n2=fd00::2"}},
          PeerDeliver{1ULL << 40, "n2", std::string("MUNGE:\0\xff", 8)},
          PeerListening{"port 6825: Address already in use"},
          PeerDelivered{7, ""},
          PeerReceived{std::string("\x01\0", 2)},
          PeerDropped{"10.0.0.9", "why"}};
}

}  // namespace

TEST_CASE("the encoding of the peer channel does not change") {
  CHECK(hex(encode_peer_message(PeerSettings{6825, 5, 1024, {"a=b"}})) ==
        "01a91a00000500000000040000"
        "0100000003000000613d62");
  CHECK(hex(encode_peer_message(PeerDeliver{258, "n2", "M:"})) ==
        "020201000000000000020000006e32020000004d3a");
  CHECK(hex(encode_peer_message(PeerListening{})) == "0300000000");
  CHECK(hex(encode_peer_message(PeerDelivered{1, "x"})) == "0401000000000000000100000078");
  CHECK(hex(encode_peer_message(PeerReceived{"ab", "c"})) == "050200000061620100000063");
  CHECK(hex(encode_peer_message(PeerDropped{"a", "w"})) == "0601000000610100000077");
}

TEST_CASE("peer channel: every kind there and back, and cut anywhere it is refused") {
  for (const PeerMessage& message : one_peer_message_of_each()) {
    const std::string packet = encode_peer_message(message);
    const auto decoded = decode_peer_message(packet);
    REQUIRE(decoded);
    CHECK(decoded->index() == message.index());
    CHECK(encode_peer_message(*decoded) == packet);
    for (std::size_t length = 0; length < packet.size(); ++length) {
      CHECK_FALSE(decode_peer_message(std::string_view(packet).substr(0, length)));
    }
    CHECK_FALSE(decode_peer_message(packet + "x"));
  }
}

TEST_CASE("peer channel: unknown kinds and hostile counts are refused") {
  CHECK_FALSE(decode_peer_message(std::string("\0", 1)));
  CHECK_FALSE(decode_peer_message("\x07"));
  CHECK_FALSE(decode_peer_message("\xff"));
  std::string settings = encode_peer_message(PeerSettings{1, 1, 1, {}});
  settings.replace(settings.size() - 4, 4, "\xff\xff\xff\xff");  // four billion addresses
  CHECK_FALSE(decode_peer_message(settings));
  CHECK_FALSE(
      decode_peer_message("\x05\xff\xff\xff\xff"
                          "abc"));
}
