#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "common/os/file.hpp"
#include "plugin/marker.hpp"
#include "scratch.hpp"

using namespace nodestage;

namespace {

unsigned mode_of(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? status.st_mode & 07777U : 0;
}

}  // namespace

TEST_CASE("a marker written again is another one") {
  Scratch scratch;
  CHECK(marker_number(scratch.path(), 7) == 0);
  REQUIRE(write_marker(scratch.path(), 7, ""));
  const auto first = marker_number(scratch.path(), 7);
  CHECK(first != 0);
  REQUIRE(write_marker(scratch.path(), 7, ""));
  CHECK(marker_number(scratch.path(), 7) != first);
}

TEST_CASE("marker: absent, empty, with a message, and gone again") {
  const Scratch scratch;
  const std::string runtime = scratch / "run";
  CHECK(read_marker(runtime, 7).state == MarkerState::absent);

  REQUIRE(write_marker(runtime, 7, ""));
  CHECK(read_marker(runtime, 7).state == MarkerState::ask_daemon);
  CHECK(read_marker(runtime, 70).state == MarkerState::absent);

  REQUIRE(write_marker(runtime, 7, "the cause\nwhat to do"));
  CHECK(read_marker(runtime, 7).state == MarkerState::failed);
  CHECK(read_marker(runtime, 7).message == "the cause\nwhat to do");

  remove_marker(runtime, 7);
  CHECK(read_marker(runtime, 7).state == MarkerState::absent);
  remove_marker(runtime, 7);
}

TEST_CASE("marker: what a job's tasks could not tell is kept with it, and not for its next run") {
  const Scratch scratch;
  const std::string runtime = scratch / "run";
  REQUIRE(write_marker(runtime, 7, ""));
  CHECK(pending(runtime, 7).empty());
  const std::string binary("\0\n\xff", 3);
  REQUIRE(keep_pending(runtime, 7, "first"));
  REQUIRE(keep_pending(runtime, 7, binary));
  REQUIRE(keep_pending(runtime, 7, "first"));
  CHECK(pending(runtime, 7) == std::vector<std::string>{"first", binary});
  CHECK(mode_of(runtime + "/jobs/7.untold") == 0600);
  CHECK(keep_pending(runtime, 7, std::string(40'000, 'x')).error().code == EFBIG);
  CHECK(pending(runtime, 7).size() == 2);
  REQUIRE(write_marker(runtime, 7, ""));
  CHECK(pending(runtime, 7).empty());
  REQUIRE(keep_pending(runtime, 7, "later"));
  remove_marker(runtime, 7);
  CHECK(pending(runtime, 7).empty());
  CHECK(read_marker(runtime, 7).state == MarkerState::absent);
}

TEST_CASE("marker: any user can read it, whatever the umask") {
  const Scratch scratch;
  const mode_t old = ::umask(077);
  REQUIRE(write_marker(scratch / "run", 1, "text"));
  ::umask(old);
  CHECK(mode_of(scratch / "run") == 0711);
  CHECK(mode_of(scratch / "run/jobs") == 0711);
  CHECK(mode_of(scratch / "run/jobs/1") == 0644);
}

// Its lock would be held while what reads it has a page of a file system of the user's to fill.
TEST_CASE("attack: nobody lists the directory in which every prolog makes a name") {
  const Scratch scratch;
  REQUIRE(::mkdir((scratch / "run").c_str(), 0755) == 0);
  REQUIRE(::mkdir((scratch / "run/jobs").c_str(), 0755) == 0);  // an earlier release's
  REQUIRE(write_marker(scratch / "run", 1, "text"));
  CHECK(mode_of(scratch / "run/jobs") == 0711);
}

TEST_CASE("marker: a message of any length can be read again") {
  const Scratch scratch;
  REQUIRE(write_marker(scratch / "run", 1, std::string(3 * k_max_marker_bytes, 'x')));
  CHECK(read_marker(scratch / "run", 1).message.size() == k_max_marker_bytes);
}

TEST_CASE("marker: one that cannot be read fails the job and says why") {
  const Scratch scratch;
  REQUIRE(write_marker(scratch / "run", 1, ""));
  ::mkdir((scratch / "run/jobs/2").c_str(), 0755);
  const Marker marker = read_marker(scratch / "run", 2);
  CHECK(marker.state == MarkerState::failed);
  CHECK_FALSE(marker.message.empty());
}

TEST_CASE("every-job is a file in the runtime directory") {
  const Scratch scratch;
  CHECK_FALSE(wants_every_job(scratch.path().string()));
  const auto made = open_at(AT_FDCWD, scratch / "every-job", O_CREAT | O_WRONLY, 0644);
  REQUIRE(made);
  CHECK(wants_every_job(scratch.path().string()));
}
