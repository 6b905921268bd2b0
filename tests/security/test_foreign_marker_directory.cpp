// Attack: a user who may write where the prolog, as root, puts its markers would place a link
// there, or a marker of their own for another's job.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plugin/marker.hpp"
#include "scratch.hpp"
#include "texts.hpp"

using namespace nodestage;

TEST_CASE("no marker is written into a directory that others may write to") {
  const Scratch scratch;
  REQUIRE(write_marker(scratch / "run", 1, ""));
  ::chmod((scratch / "run/jobs").c_str(), 0777);
  CHECK_FALSE(write_marker(scratch / "run", 2, ""));
  ::chmod((scratch / "run/jobs").c_str(), 0755);
  ::chmod((scratch / "run").c_str(), 01777);
  CHECK_FALSE(write_marker(scratch / "run", 2, ""));
}

TEST_CASE("no marker is written through a link") {
  const Scratch scratch;
  ::mkdir((scratch / "run").c_str(), 0755);
  ::mkdir((scratch / "elsewhere").c_str(), 0755);
  REQUIRE(::symlink((scratch / "elsewhere").c_str(), (scratch / "run/jobs").c_str()) == 0);
  CHECK_FALSE(write_marker(scratch / "run", 1, ""));
  CHECK(::access((scratch / "elsewhere/1").c_str(), F_OK) != 0);
}

TEST_CASE("a link in place of a marker is replaced, not followed") {
  const Scratch scratch;
  REQUIRE(write_marker(scratch / "run", 1, ""));
  REQUIRE(::symlink((scratch / "victim").c_str(), (scratch / "run/jobs/2").c_str()) == 0);
  REQUIRE(write_marker(scratch / "run", 2, "text"));
  CHECK(::access((scratch / "victim").c_str(), F_OK) != 0);
  CHECK(read_marker(scratch / "run", 2).message == "text");
}

TEST_CASE("no marker is written into another user's directory") {
  if (skipped_without_root()) return;
  const Scratch scratch;
  ::mkdir((scratch / "run").c_str(), 0755);
  REQUIRE(::chown((scratch / "run").c_str(), 65534, 65534) == 0);
  CHECK_FALSE(write_marker(scratch / "run", 1, ""));
}
