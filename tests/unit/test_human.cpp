#include <doctest/doctest.h>

#include <cstdlib>
#include <ctime>

#include "common/text/human.hpp"
#include "tests/unit/sizes.hpp"

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
