// Attack: anybody on a node may send the daemon any bytes, and another program may sit where the
// plugin expects the daemon. Whatever the decoder takes must be exactly one message; it never reads
// past its input (AddressSanitizer watches) and no count in a message makes it allocate.
#include <doctest/doctest.h>

#include "common/wire/protocol.hpp"
#include "mutations.hpp"

using namespace nodestage;

namespace {

std::vector<Message> one_of_each() {
  return {Begin{7,
                0,
                1000,
                1000,
                "alice",
                "n1",
                3,
                0,
                "n1",
                {"n1", "n2"},
                1,
                4,
                "/home/alice",
                "/home/alice/slurm-%j.out",
                R"({"version":1})"},
          End{7, 0, 0, 60},
          Wait{7, 0, 1, 0, WaitScope::all, 1000, 5, 2, "name"},
          Exited{7, 0, 256},
          StatusQuery{7},
          HeldQuery{},
          Recover{7, 0, "/home/alice/r"},
          Accepted{},
          Refused{RefusalReason::busy, "busy"},
          Progress{ProgressPhase::staging, 0, 1, 2, 3, 4, 5, 6, 7, "data.tar"},
          Ready{{"SLURM_TMPDIR=/l/7", "NODESTAGE_DATASET=/l/7/d"}, {"line"}},
          Failed{"cause", {"line", ""}},
          Ended{EndOutcome::held, "held"},
          StatusRow{7, 0, 1000, "alice", "n1", "ready", 1, "why", "n2", "/l/.nodestage/hold/7.0"},
          HeldRow{7, 0, 1000, "n1", 1, 2, 3, 1, 4, 5, "/l/.nodestage/hold/7.0", {"why"}},
          Recovered{{"line"}},
          StatusItem{ItemKind::dataset, ItemState::working, 1, 2, 3, 4, 5, 6, "D", "tar",
                     "/home/alice/d.tar", "/l/7/d", "note"}};
}

}  // namespace

TEST_CASE("48,000 damaged messages are refused or read as exactly what they say") {
  Mutations mutations(
      4711, {std::string(4, '\0'), "\xff\xff\xff\xff", std::string("\0\0\2\0", 4), "\x01", "\x02",
             std::string("\x01\x00\x00\x00", 4), "\x16", "\x7f\xff\xff\xff"});
  unsigned accepted = 0;
  for (const Message& message : one_of_each()) {
    const std::string good = encode_message(message);
    for (int i = 0; i < 3000; ++i) {
      const std::string packet = mutations.of(good);
      const auto decoded = decode_message(packet);
      if (!decoded) continue;
      ++accepted;
      if (encode_message(*decoded) != packet)
        FAIL("read as another message: kind " << int(packet[1]));
    }
  }
  CHECK(accepted > 1000);
}

TEST_CASE("every message cut short, or with a byte too many, is refused") {
  for (const Message& message : one_of_each()) {
    const std::string good = encode_message(message);
    for (std::size_t bytes = 0; bytes < good.size(); ++bytes) {
      if (decode_message(std::string_view(good).substr(0, bytes))) FAIL("cut at " << bytes);
    }
    CHECK_FALSE(decode_message(good + '\0'));
  }
}

TEST_CASE("a count of 2^32 - 1 costs nothing") {
  for (const int kind : {19, 20, 22}) {
    std::string packet{'\x01', static_cast<char>(kind)};
    packet.append(64, '\xff');
    CHECK_FALSE(decode_message(packet));
  }
}
