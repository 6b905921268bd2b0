#include <doctest/doctest.h>

#include "common/text/encodings.hpp"

using namespace nodestage;

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
