#include <doctest/doctest.h>

#include "common/text/human.hpp"

using namespace nodestage;

TEST_CASE("printable text is bounded with its escapes, and cut between characters") {
  CHECK(printable_within("abc", 3) == "abc");
  CHECK(printable_within("abcdefghij", 7) == "ab...ij");
  CHECK(printable_within("\x1b[2J", 7) == "\\x1b[2J");
  CHECK(printable_within("a\nb", 10, Newlines::join) == "a; b");
  const std::string umlauts = "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4";
  CHECK(printable_within(umlauts, 9) == "\xc3\xa4...\xc3\xa4");
  CHECK(printable_within(umlauts, 3) == "...");
  CHECK(printable_within(std::string(1000, '\x1b'), 100).size() == 100);
}
