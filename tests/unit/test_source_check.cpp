#include <doctest/doctest.h>
#include <fcntl.h>

#include "common/os/file.hpp"
#include "common/request/request_warnings.hpp"
#include "scratch.hpp"

using namespace nodestage;

TEST_CASE("source check: names, globs, and names that look like globs") {
  const Scratch scratch;
  for (const char* name : {"a.tar", "[1].tar"}) {
    const auto made = open_at(AT_FDCWD, scratch / name, O_CREAT | O_WRONLY, 0600);
    REQUIRE(made);
  }
  CHECK(source_exists(scratch / "a.tar"));
  CHECK(source_exists(scratch / "*.tar"));
  CHECK(source_exists(scratch / "[1].tar"));
  CHECK(source_exists(scratch.path().string()));
  CHECK_FALSE(source_exists(scratch / "b.tar"));
  CHECK_FALSE(source_exists(scratch / "b*.tar"));
  CHECK_FALSE(source_exists(scratch / "a.tar/below"));
  CHECK(source_exists(scratch / "**/x.tar"));  // not searched
  CHECK_FALSE(source_exists(scratch / "b/**/x.tar"));
  CHECK(source_exists(scratch / "{a,[1]}.tar"));
  CHECK(missing_part(scratch / "{a,b*,c}.tar") == scratch / "b*.tar");
}
