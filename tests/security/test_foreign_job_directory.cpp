// Attack: where users may write into the root of the job directories (sticky, like /tmp), somebody
// makes the name of a victim's future job: as a link, a file, or a directory of their own; or
// the daemon's own areas. Root must neither follow it nor give anything away.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../unit/scratch.hpp"
#include "../unit/texts.hpp"
#include "daemon/root/basis/areas.hpp"

using namespace nodestage;

namespace {

constexpr std::uint32_t k_victim = 65534;
constexpr std::uint32_t k_attacker = 65533;

std::uint32_t owner(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 ? info.st_uid : ~0U;
}

// A root as careless as is allowed.
struct Place {
  Place() { ::chmod(scratch.path().c_str(), 01777); }
  Scratch scratch;
  std::string operator/(const std::string& name) const { return scratch / name; }
  [[nodiscard]] Areas areas() const { return std::move(*Areas::open(scratch.path())); }
};

}  // namespace

TEST_CASE("a link in place of the job directory is refused; what it names keeps its owner") {
  if (skipped_without_root()) return;
  const Place place;
  const Areas areas = place.areas();
  ::mkdir((place / "secret").c_str(), 0700);
  REQUIRE(::symlink((place / "secret").c_str(), (place / "victim.7.0").c_str()) == 0);
  const auto made = areas.make_directory("victim.7.0", k_victim, k_victim);
  REQUIRE_FALSE(made);
  CHECK(owner(place / "secret") == 0);
  CHECK(!areas.open_directory("victim.7.0", k_victim));
}

TEST_CASE("a link to nowhere, a file and a FIFO in place of the job directory are refused") {
  if (skipped_without_root()) return;
  const Place place;
  const Areas areas = place.areas();
  REQUIRE(::symlink("nowhere", (place / "link").c_str()) == 0);
  REQUIRE(::mknod((place / "file").c_str(), S_IFREG | 0644, 0) == 0);
  REQUIRE(::mkfifo((place / "fifo").c_str(), 0644) == 0);
  for (const char* name : {"link", "file", "fifo"}) {
    CAPTURE(name);
    CHECK_FALSE(areas.make_directory(name, k_victim, k_victim));
    CHECK(owner(place / name) == 0);
  }
  CHECK(::access((place / "nowhere").c_str(), F_OK) != 0);
}

TEST_CASE(
    "another user's directory in place of the job directory is refused, and its owner is named") {
  if (skipped_without_root()) return;
  const Place place;
  const Areas areas = place.areas();
  ::mkdir((place / "victim.7.0").c_str(), 0777);
  REQUIRE(::chown((place / "victim.7.0").c_str(), k_attacker, k_attacker) == 0);
  const Error made = must_fail(areas.make_directory("victim.7.0", k_victim, k_victim));
  CHECK(has(made.what, "belongs to uid 65533"));
  CHECK(owner(place / "victim.7.0") == k_attacker);
  CHECK(!areas.open_directory("victim.7.0", k_victim));
}

TEST_CASE("the job directory is the user's alone, from its first moment") {
  if (skipped_without_root()) return;
  const Place place;
  const Areas areas = place.areas();
  ::umask(0);
  REQUIRE(areas.make_directory("victim.7.0", k_victim, k_victim));
  struct stat info {};
  REQUIRE(::lstat((place / "victim.7.0").c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0700);
  CHECK(info.st_uid == k_victim);
  CHECK(info.st_gid == k_victim);
}

TEST_CASE(
    "a job directory that a daemon had begun is made anew; one of root's with something in it is "
    "not") {
  if (skipped_without_root()) return;
  const Place place;
  const Areas areas = place.areas();
  for (const char* name : {"begun", "full", "open"})
    REQUIRE(::mkdir((place / name).c_str(), *name == 'o' ? 0755 : 0700) == 0);
  REQUIRE(::mkdir((place / "full/of").c_str(), 0700) == 0);
  CHECK(areas.make_directory("begun", k_victim, k_victim));
  CHECK(owner(place / "begun") == k_victim);
  for (const char* name : {"full", "open"}) {
    CHECK_FALSE(areas.make_directory(name, k_victim, k_victim));
    CHECK(owner(place / name) == 0);
  }
}

TEST_CASE("a root that others can rearrange is refused") {
  if (skipped_without_root()) return;
  const Scratch scratch;
  ::chmod(scratch.path().c_str(), 0777);
  CHECK(!Areas::open(scratch.path()));
  ::chmod(scratch.path().c_str(), 0775);
  CHECK(!Areas::open(scratch.path()));
  ::chmod(scratch.path().c_str(), 0755);
  REQUIRE(::chown(scratch.path().c_str(), k_attacker, k_attacker) == 0);
  CHECK(!Areas::open(scratch.path()));
}

TEST_CASE("the daemon's own areas are taken from nobody else") {
  if (skipped_without_root()) return;
  for (const char* attack : {"link", "foreign", "open", "inner link"}) {
    CAPTURE(attack);
    const Place place;
    const std::string hidden = place / ".nodestage";
    ::mkdir((place / "elsewhere").c_str(), 0700);
    if (attack == std::string_view("link")) {
      REQUIRE(::symlink((place / "elsewhere").c_str(), hidden.c_str()) == 0);
    } else {
      ::mkdir(hidden.c_str(), 0700);
    }
    if (attack == std::string_view("foreign"))
      REQUIRE(::chown(hidden.c_str(), k_attacker, k_attacker) == 0);
    if (attack == std::string_view("open")) ::chmod(hidden.c_str(), 0777);
    if (attack == std::string_view("inner link")) {
      REQUIRE(::symlink((place / "elsewhere").c_str(), (hidden + "/trash").c_str()) == 0);
    }
    CHECK(!Areas::open(place.scratch.path()));
  }
}

TEST_CASE("a link is thrown away as a link") {
  if (skipped_without_root()) return;
  const Place place;
  Areas areas = place.areas();
  ::mkdir((place / "secret").c_str(), 0700);
  REQUIRE(::symlink((place / "secret").c_str(), (place / "victim.7.0").c_str()) == 0);
  REQUIRE(areas.move_to_trash("victim.7.0", k_victim, k_victim));
  CHECK(owner(place / "secret") == 0);
  CHECK(owner(place / "victim.7.0") == ~0U);
  const auto trash = areas.take_new_trash();
  REQUIRE(trash.size() == 1);
  CHECK(!areas.open_trash(trash[0]));
}
