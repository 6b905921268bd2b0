#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "daemon/root/basis/areas.hpp"
#include "scratch.hpp"
#include "texts.hpp"

using namespace nodestage;
namespace fs = std::filesystem;

namespace {

// A daemon's root on the disk, and a directory on a tmpfs.
struct Site {
  Site() { fs::permissions(scratch.path(), fs::perms(0755)); }

  [[nodiscard]] Areas open(const std::string& path) const {
    Areas areas = std::move(*Areas::open(scratch.path(), ::geteuid()));
    areas.open_memory(path);
    return areas;
  }

  Scratch scratch;
  Scratch tmpfs{"/dev/shm"};
  std::string memory = tmpfs.path();
};

bool is_private_directory(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 && info.st_mode == (S_IFDIR | 0700) &&
         info.st_uid == ::geteuid();
}

}  // namespace

TEST_CASE("a job has a private directory in memory, which goes to the trash there") {
  const Site site;
  const JobKey job{7, 1};
  Areas areas = site.open(site.memory);
  REQUIRE(areas.memory_fault().empty());
  CHECK(areas.jobs_in_memory().empty());
  REQUIRE(areas.make_in_memory(job, ::geteuid(), ::getegid()));
  CHECK(areas.memory_path(job) == site.memory + "/.nodestage-memory/7.1");
  CHECK(is_private_directory(areas.memory_path(job)));
  CHECK(is_private_directory(site.memory + "/.nodestage-memory/trash"));
  fs::create_directory(areas.memory_path(job) + "/data");
  // Another daemon finds it, with what is in it.
  Areas next = site.open(site.memory);
  CHECK(next.jobs_in_memory() == std::vector<JobKey>{job});
  REQUIRE(next.make_in_memory(job, ::geteuid(), ::getegid()));
  CHECK(fs::exists(next.memory_path(job) + "/data"));
  REQUIRE(next.move_memory_to_trash(job));
  CHECK(next.move_memory_to_trash(job));
  CHECK(next.jobs_in_memory().empty());
  CHECK(next.trees_in_trash() == 1);
  // And the one after that finds the trash.
  Areas last = site.open(site.memory);
  const auto trash = last.take_new_trash();
  REQUIRE(trash.size() == 1);
  CHECK(trash[0].medium == Medium::memory);
  REQUIRE(last.open_trash(trash[0]));
  fs::remove(site.memory + "/.nodestage-memory/trash/" + trash[0].name + "/data");
  CHECK(last.remove_trash(trash[0]));
  CHECK(last.trees_in_trash() == 0);
}

TEST_CASE("what lies in the way is refused, and nothing is made where it leads") {
  const Site site;
  const std::string own = site.memory + "/.nodestage-memory";
  const std::string victim = site.scratch / "victim";
  fs::create_directory(victim);
  std::string part;
  SUBCASE("a link") { fs::create_directory_symlink(victim, own), part = own; }
  SUBCASE("a file") { ::close(::open(own.c_str(), O_CREAT | O_WRONLY, 0600)), part = own; }
  SUBCASE("a directory to which others can write") {
    fs::create_directory(own);
    fs::permissions(own, fs::perms(0777));
    part = "writable by root only";
  }
  SUBCASE("a link for the trash") {
    fs::create_directory(own);
    fs::create_directory_symlink(victim, own + "/trash");
    part = own + "/trash";
  }
  SUBCASE("writable by others and not sticky") {
    fs::permissions(site.memory, fs::perms(0777));
    part = "writable by root only";
  }
  Areas areas = site.open(site.memory);
  CAPTURE(areas.memory_fault());
  CHECK(has(areas.memory_fault(), part));
  CHECK_FALSE(areas.make_in_memory({7, 0}, ::geteuid(), ::getegid()));
  CHECK(areas.move_memory_to_trash({7, 0}));
  CHECK(fs::is_empty(victim));
}

TEST_CASE("what another user has put in the way is put aside, as it is") {
  if (skipped_without_root()) return;
  const Site site;
  const std::string victim = site.memory + "/victim";
  const std::string own = site.memory + "/.nodestage-memory";
  fs::create_directory(victim);
  fs::create_directory_symlink(victim, own);
  REQUIRE(::lchown(own.c_str(), 1000, 1000) == 0);
  Areas areas = site.open(site.memory);
  CHECK(areas.memory_fault().empty());
  CHECK(areas.make_in_memory({7, 0}, 1000, 1000));
  CHECK(fs::is_empty(victim));
  CHECK(fs::is_directory(fs::symlink_status(own)));
  const auto aside = std::find_if(
      fs::directory_iterator(site.memory), fs::directory_iterator(), [](const auto& entry) {
        return entry.path().filename().string().starts_with(".nodestage-memory.not-root.");
      });
  REQUIRE(aside != fs::directory_iterator());
  CHECK(fs::read_symlink(aside->path()) == victim);
}

TEST_CASE("a directory that is not on a tmpfs, or is missing, is refused") {
  const Site site;
  CHECK(site.open("/proc").memory_fault() == "/proc: is not a tmpfs");
  CHECK(has(site.open(site.memory + "/none").memory_fault(), "No such file"));
}
