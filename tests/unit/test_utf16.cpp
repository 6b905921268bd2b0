#include <doctest/doctest.h>

#include "common/text/encodings.hpp"

using namespace nodestage;

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
