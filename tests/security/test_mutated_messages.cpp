// Attack: anybody on a node may send the daemon any bytes, and another program may sit where the
// plugin expects the daemon. Whatever the decoder takes must be exactly one message; it never reads
// past its input (AddressSanitizer watches) and no count in a message makes it allocate.
#include <doctest/doctest.h>

#include "../unit/messages.hpp"
#include "common/wire/protocol.hpp"
#include "mutations.hpp"

using namespace nodestage;

TEST_CASE("damaged messages are refused or read as exactly what they say") {
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
