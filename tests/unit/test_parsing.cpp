#include <doctest/doctest.h>

#include <cstdint>

#include "common/text/parsing.hpp"

using namespace nodestage;

TEST_CASE("a number is all of its text, in digits, and fits") {
  CHECK(parse_number<std::uint32_t>("0") == 0U);
  CHECK(parse_number<std::uint32_t>("4294967295") == 4294967295U);
  CHECK(parse_number<std::int64_t>("-7") == -7);
  for (const char* text : {"", " 1", "1 ", "+1", "-1", "1x", "0x1", "4294967296", "1.0"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_number<std::uint32_t>(text));
  }
}

TEST_CASE("a number is taken off what it begins") {
  std::string_view text = "12(x3)";
  CHECK(take_number<std::uint32_t>(text) == 12U);
  CHECK(text == "(x3)");
  CHECK_FALSE(take_number<std::uint32_t>(text));
  CHECK(text == "(x3)");
}

TEST_CASE("blanks are those at both ends") {
  CHECK(trimmed(" \ta b\r ") == "a b");
  CHECK(trimmed("a") == "a");
  CHECK(trimmed(" \t").empty());
  CHECK(trimmed("").empty());
  CHECK(trimmed(" a\r", " \t") == "a\r");
}
