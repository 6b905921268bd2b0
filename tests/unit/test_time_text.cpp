#include <doctest/doctest.h>

#include "cli/base/listing.hpp"

using namespace nodestage;

TEST_CASE("dates, times and epochs are parsed as users type them") {
  const auto moment = [](const std::string& text) { return parse_moment(text); };
  CHECK(*moment("@0") == 0);
  CHECK(*moment("@-1") == -1);
  CHECK(*moment("@1763769600") == 1763769600);
  CHECK(*moment("1970-01-02") == 86400);
  CHECK(*moment("2001-09-09T01:46:40") == 1000000000);
  CHECK(*moment("2001-09-09T01:46:40Z") == 1000000000);
  for (const char* wrong : {"", "@", "@1x", "yesterday", "2001-09-09T01:46", "2001-13-01", "5"}) {
    CAPTURE(wrong);
    CHECK(!moment(wrong));
  }
}
