#include <doctest/doctest.h>

#include "common/wire/peer_note.hpp"
#include "hex.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

PeerNote node_note() {
  return {{"n1"}, "n2", 7, 1, 0x0102030405060708, NodeNote{NodeState::failed, 1, 0, 5, 6, "no"}};
}

PeerNote choice_note() {
  PeerNote note = node_note();
  std::get<NodeNote>(note.body) = {NodeState::ready, 1, 0, 5, 6, "", "start: e3.pt"};
  return note;
}

PeerNote job_note() {
  JobNote body{Verdict::ready, "t", {true, 40, k_no_number, "nm", true}, true, 256};
  return {{"n2", "n3"}, "n1", 7, 0, 9, std::move(body)};
}

PeerNote relay_note() {
  RelayNote body{RelayWord::answer, 6826, "n3", "10.0.0.3", 6827, std::string(32, 'k')};
  return {{"n2"}, "n1", 7, 0, 9, std::move(body)};
}

// `note` with `bytes` at `offset`.
std::string altered(const PeerNote& note, std::size_t offset, const std::string& bytes) {
  return encode_peer_note(note).replace(offset, bytes.size(), bytes);
}

}  // namespace

TEST_CASE("peer note: golden bytes of version 1") {
  CHECK(hex(encode_peer_note(node_note())) ==
        digits("0101 01000000020000006e31 020000006e32 07000000 01000000 0807060504030201 "
               "040100 0500000000000000 0600000000000000 020000006e6f"));
  CHECK(hex(encode_peer_note(choice_note())) ==
        digits("0101 01000000020000006e31 020000006e32 07000000 01000000 0807060504030201 "
               "030100 0500000000000000 0600000000000000 00000000 "
               "0c00000073746172743a2065332e7074"));
  CHECK(hex(encode_peer_note(job_note())) ==
        digits("0102 02000000020000006e32020000006e33 020000006e31 07000000 00000000 "
               "0900000000000000 02 0100000074 01 28000000 ffffffff 020000006e6d 01 01 01 "
               "00010000"));
  CHECK(hex(encode_peer_note(relay_note())) ==
        digits("0103 01000000020000006e32 020000006e31 07000000 00000000 0900000000000000 "
               "03 aa1a0000 020000006e33 0800000031302e302e302e33 ab1a0000 20000000") +
            hex(std::string(32, 'k')));
}

TEST_CASE("a relay note with a port, an address or a key that cannot be is refused") {
  const auto is_taken = [](auto change) {
    PeerNote note = relay_note();
    change(std::get<RelayNote>(note.body));
    return static_cast<bool>(decode_peer_note(encode_peer_note(note)));
  };
  CHECK(is_taken([](RelayNote&) {}));
  CHECK_FALSE(is_taken([](RelayNote& note) { note.port = 65'536; }));
  CHECK_FALSE(is_taken([](RelayNote& note) { note.node_port = 65'536; }));
  CHECK_FALSE(is_taken([](RelayNote& note) { note.key.pop_back(); }));
  CHECK_FALSE(is_taken([](RelayNote& note) { note.word = RelayWord::join; }));  // with a key
  CHECK_FALSE(is_taken([](RelayNote& note) { note.node.assign(256, 'n'); }));
  CHECK_FALSE(is_taken([](RelayNote& note) { note.address.assign(64, '1'); }));
}

TEST_CASE("peer note: there and back, and cut anywhere it is refused") {
  for (const PeerNote& note : {node_note(), job_note(), relay_note()}) {
    const std::string data = encode_peer_note(note);
    const auto decoded = must(decode_peer_note(data));
    CHECK(decoded.to == note.to);
    CHECK(decoded.from == note.from);
    CHECK(decoded.sequence == note.sequence);
    CHECK(decoded.body.index() == note.body.index());
    CHECK(encode_peer_note(decoded) == data);
    for (std::size_t length = 0; length < data.size(); ++length) {
      CHECK_FALSE(decode_peer_note(std::string_view(data).substr(0, length)));
    }
    CHECK_FALSE(decode_peer_note(data + "x"));
  }
}

// Releases before `newest` end the note after its cause, and accept no more.
TEST_CASE(
    "peer note: what was chosen is left out where it is empty, and there and back otherwise") {
  const std::string data = encode_peer_note(choice_note());
  const auto decoded = must(decode_peer_note(data));
  CHECK(std::get<NodeNote>(decoded.body).chosen == "start: e3.pt");
  CHECK(encode_peer_note(decoded) == data);
  CHECK_FALSE(decode_peer_note(data + "x"));
  CHECK_FALSE(decode_peer_note(std::string_view(data).substr(0, data.size() - 1)));
  PeerNote wordy = choice_note();
  std::get<NodeNote>(wordy.body).chosen.assign(k_max_note_text_bytes + 1, 'x');
  CHECK_FALSE(decode_peer_note(encode_peer_note(wordy)));
}

TEST_CASE("peer note: the cause of a failure is at the end, and nothing where there is none") {
  PeerNote note = job_note();
  const std::string without = encode_peer_note(note);
  std::get<JobNote>(note.body).cause = "no";
  const std::string data = encode_peer_note(note);
  CHECK(hex(data) == hex(without) + "020000006e6f");
  const auto decoded = decode_peer_note(data);
  REQUIRE(decoded);
  CHECK(std::get<JobNote>(decoded->body).cause == "no");
  CHECK_FALSE(decode_peer_note(data + "x"));
  std::get<JobNote>(note.body).cause.assign(k_max_note_text_bytes + 1, 'x');
  CHECK_FALSE(decode_peer_note(encode_peer_note(note)));
}

TEST_CASE("peer note: a status that is not known stays so") {
  PeerNote note = job_note();
  std::get<JobNote>(note.body).status.reset();
  CHECK_FALSE(std::get<JobNote>(must(decode_peer_note(encode_peer_note(note))).body).status);
}

TEST_CASE("peer note: another version, unknown kinds and values are refused") {
  CHECK(has(decode_peer_note(altered(node_note(), 0, "\x02")).error().what, "version 2"));
  for (const char kind : {'\0', '\x03', '\xff'}) {
    CHECK_FALSE(decode_peer_note(altered(node_note(), 1, std::string(1, kind))));
  }
  for (const char state : {'\0', '\x05', '\xff'}) {
    CHECK_FALSE(decode_peer_note(altered(node_note(), 34, std::string(1, state))));
  }
  for (const char verdict : {'\0', '\x04'}) {
    CHECK_FALSE(decode_peer_note(altered(job_note(), 40, std::string(1, verdict))));
  }
}

TEST_CASE("peer note: hostile counts and lengths are refused") {
  CHECK_FALSE(decode_peer_note(altered(node_note(), 2, "\xff\xff\xff\xff")));
  CHECK_FALSE(decode_peer_note(altered(node_note(), 6, "\xff\xff\xff\xff")));
  PeerNote many = node_note();
  many.to.assign(k_max_note_destinations, "n");
  CHECK(decode_peer_note(encode_peer_note(many)));
  many.to.emplace_back("n");
  CHECK_FALSE(decode_peer_note(encode_peer_note(many)));
  PeerNote wordy = node_note();
  std::get<NodeNote>(wordy.body).cause.assign(k_max_note_text_bytes, 'x');
  CHECK(decode_peer_note(encode_peer_note(wordy)));
  std::get<NodeNote>(wordy.body).cause += 'x';
  CHECK_FALSE(decode_peer_note(encode_peer_note(wordy)));
  PeerNote huge = node_note();
  huge.from.assign(k_max_note_bytes, 'x');
  CHECK(decode_peer_note(encode_peer_note(huge)).error().what == "a note that is too long");
}

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
    const auto decoded = must(decode_peer_message(packet));
    CHECK(decoded.index() == message.index());
    CHECK(encode_peer_message(decoded) == packet);
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
