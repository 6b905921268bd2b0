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

TEST_CASE("a duration is a number of seconds, or has one unit") {
  CHECK(parse_duration("0") == 0U);
  CHECK(parse_duration("90") == 90U);
  CHECK(parse_duration("90s") == 90U);
  CHECK(parse_duration("15m") == 900U);
  CHECK(parse_duration("1h") == 3600U);
  CHECK(parse_duration("2d") == 172800U);
  CHECK(parse_duration("18446744073709551615") == 18446744073709551615U);
  for (const char* text : {"", "s", "1x", "1 h", "1H", "1min", "1h30m", "-1", "+1", "1.5h", " 1",
                           "18446744073709551616", "18446744073709551615m"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_duration(text));
  }
}
