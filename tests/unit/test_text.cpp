#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <ctime>

#include "common/text/encodings.hpp"
#include "common/text/human.hpp"
#include "common/text/parsing.hpp"
#include "sizes.hpp"

using namespace nodestage;

TEST_CASE("dates are the node's local time") {
  ::setenv("TZ", "UTC-1", 1);
  ::tzset();
  CHECK(human_date(1'700'000'000) == "2023-11-14 23:13");
  ::unsetenv("TZ");
  ::tzset();
}

TEST_CASE("bytes are shown in binary units") {
  CHECK(human_bytes(0) == "0 B");
  CHECK(human_bytes(1023) == "1023 B");
  CHECK(human_bytes(1024) == "1.0 KiB");
  CHECK(human_bytes(1536) == "1.5 KiB");
  CHECK(human_bytes((1ULL << 20) - 1) == "1.0 MiB");
  CHECK(human_bytes(12ULL << 30) == "12.0 GiB");
  CHECK(human_bytes(~0ULL) == "16.0 EiB");
}

TEST_CASE("two amounts that differ look as if they did") {
  using Pair = std::pair<std::string, std::string>;
  CHECK(human_bytes_apart(k_gib, k_gib) == Pair("1.0 GiB", "1.0 GiB"));
  CHECK(human_bytes_apart(2 * k_gib, k_gib) == Pair("2.0 GiB", "1.0 GiB"));
  CHECK(human_bytes_apart(k_gib + k_gib / 500, k_gib) == Pair("1.002 GiB", "1.000 GiB"));
  CHECK(human_bytes_apart(k_gib + 4096, k_gib) == Pair("1.000004 GiB", "1.000000 GiB"));
}

TEST_CASE("counts have a comma at each thousand") {
  CHECK(human_count(0) == "0");
  CHECK(human_count(999) == "999");
  CHECK(human_count(1000) == "1,000");
  CHECK(human_count(1234567) == "1,234,567");
}

TEST_CASE("durations are shown in seconds, minutes or hours") {
  CHECK(human_duration(0) == "0.0 s");
  CHECK(human_duration(420) == "0.4 s");
  CHECK(human_duration(59'949) == "59.9 s");
  CHECK(human_duration(59'950) == "1 min 00 s");
  CHECK(human_duration(185'000) == "3 min 05 s");
  CHECK(human_duration(2 * 3'600'000 + 180'000) == "2 h 03 min");
}

TEST_CASE("a character that changes the order of a text is shown as its bytes") {
  for (const char* text :
       {"\xd8\x9c", "\xe2\x80\x8e", "\xe2\x80\x8f", "\xe2\x80\xa8", "\xe2\x80\xa9", "\xe2\x80\xaa",
        "\xe2\x80\xae", "\xe2\x81\xa6", "\xe2\x81\xa9"})
    CHECK_MESSAGE(printable(text).find(text) == std::string::npos, printable(text));
  CHECK(printable("a\xe2\x80\xaerat.gpj") == "a\\xe2\\x80\\xaerat.gpj");
  // Joiners are part of words and of emoji, and these dashes and quotes of names.
  for (const char* text :
       {"\xe2\x80\x8d", "\xe2\x80\x93", "\xe2\x80\x99", "\xe2\x81\xa5", "\xe2\x81\xaa"})
    CHECK(printable(text) == text);
}

TEST_CASE("printable text keeps UTF-8 and shows what a terminal would obey") {
  CHECK(printable("data.tar") == "data.tar");
  CHECK(printable("d\xc3\xa9j\xc3\xa0") == "d\xc3\xa9j\xc3\xa0");
  CHECK(printable("\xf0\x9f\x98\x80") == "\xf0\x9f\x98\x80");
  CHECK(printable("\x1b[2J") == "\\x1b[2J");
  CHECK(printable("a\nb") == "a\\x0ab");
  CHECK(printable("a\nb", Newlines::keep) == "a\nb");
  CHECK(printable("a\rb", Newlines::keep) == "a\\x0db");
  CHECK(printable("\xff\xfe") == "\\xff\\xfe");
  CHECK(printable("\xc2\x9b") == "\\xc2\\x9b");           // CSI as one C1 character
  CHECK(printable("\xc0\xaf") == "\\xc0\\xaf");           // overlong
  CHECK(printable("\xed\xa0\x80") == "\\xed\\xa0\\x80");  // surrogate
  CHECK(printable("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");
  CHECK(printable("cut \xe2\x82") == "cut \\xe2\\x82");
  CHECK(printable("\x7f") == "\\x7f");
}

TEST_CASE("words for a shell") {
  CHECK(shell_word("/a/b-1.tar") == "/a/b-1.tar");
  CHECK(shell_word("my data.tar") == "'my data.tar'");
  CHECK(shell_word("it's") == "'it'\\''s'");
  CHECK(shell_word("") == "''");
}

TEST_CASE("a long text is shortened in its middle, between characters") {
  CHECK(shortened("short", 10) == "short");
  CHECK(shortened("abcdefghijklmnop", 9) == "abc...nop");
  CHECK(shortened("abcdef", 2) == "ab");
  CHECK(shortened("\xc3\xa4\xc3\xb6\xc3\xbc", 3) == "\xc3\xa4");
  CHECK(shortened("a\xe2\x82\xac....\xe2\x82\xac.", 9) == "a....");
  CHECK(shortened("a\xe2\x82\xac.....\xe2\x82\xac", 8) == "a...\xe2\x82\xac");
}

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

TEST_CASE("a number is all of its text, in digits, and fits") {
  CHECK(parse_number<std::uint32_t>("0") == 0U);
  CHECK(parse_number<std::uint32_t>("4294967295") == 4294967295U);
  CHECK(parse_number<std::int64_t>("-7") == -7);
  for (const char* text : {"", " 1", "1 ", "+1", "-1", "1x", "0x1", "4294967296", "1.0"})
    CHECK_FALSE_MESSAGE(parse_number<std::uint32_t>(text), text);
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
                           "18446744073709551616", "18446744073709551615m"})
    CHECK_FALSE_MESSAGE(parse_duration(text), text);
}

// RFC 4648, section 10.
TEST_CASE("base64: the vectors of the RFC, with and without padding") {
  const char* const vectors[][2] = {{"", ""},        {"Zg==", "f"},        {"Zm8=", "fo"},
                                    {"Zm9v", "foo"}, {"Zm9vYg==", "foob"}, {"Zm9vYmE=", "fooba"},
                                    {"Zg", "f"},     {"Zm8", "fo"},        {"Zm9vYmFy", "foobar"}};
  for (const auto& [text, bytes] : vectors) {
    CHECK(from_base64(text) == std::string(bytes));
    CHECK(from_base64url(text) == std::string(bytes));
  }
}

TEST_CASE("base64: the alphabet for URLs only where it is asked for, and nothing else") {
  CHECK(from_base64("+/+/") == std::string("\xfb\xff\xbf"));
  CHECK(from_base64url("+/-_") == std::string("\xfb\xff\xbf"));
  CHECK_FALSE(from_base64("+/-_"));
  for (const char* text : {"Zg==Zg", "Z g", "Zg\n", "\xff"}) {
    CHECK_FALSE(from_base64(text));
    CHECK_FALSE(from_base64url(text));
  }
}

TEST_CASE("texts in UTF-16 with a byte order mark, as Windows writes them") {
  using namespace std::string_literals;
  CHECK(utf8_of("\xFF\xFEn\0=\0=\0\r\0\n\0"s) == "n==\r\n");
  CHECK(utf8_of("\xFE\xFF\0n\0=\0="s) == "n==");
  CHECK(utf8_of("\xFF\xFE\xE9\0\xAC\x20\x3D\xD8\x00\xDE"s) == "é€😀");
}

TEST_CASE("what is no UTF-16 stays as it is, without the mark of UTF-8") {
  using namespace std::string_literals;
  CHECK(utf8_of("") == "");
  CHECK(utf8_of("\xFF") == "\xFF");
  CHECK(utf8_of("numpy\n") == "numpy\n");
  CHECK(utf8_of("\xEF\xBB\xBFnumpy") == "numpy");
  CHECK(utf8_of("a\0b"s) == "a\0b"s);
}

TEST_CASE("UTF-16 that is not valid: half a pair, half a unit") {
  using namespace std::string_literals;
  CHECK(utf8_of("\xFF\xFE\x3D\xD8n\0"s) == "\xEF\xBF\xBDn");
  CHECK(utf8_of("\xFF\xFE\x00\xDE"s) == "\xEF\xBF\xBD");
  CHECK(utf8_of("\xFF\xFEn\0x"s) == "n");
  CHECK(utf8_of("\xFF\xFE\x3D\xD8\x3D"s) == "\xEF\xBF\xBD");
}
