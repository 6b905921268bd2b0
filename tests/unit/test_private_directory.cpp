#include <doctest/doctest.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "cli/base/private_directory.hpp"
#include "common/os/child.hpp"
#include "common/os/file.hpp"
#include "scratch.hpp"

namespace fs = std::filesystem;
using namespace nodestage;

namespace {

std::string mark_at(const std::string& path) {
  const auto fd = open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY);
  REQUIRE(fd);
  return mark_of(fd->get()).value();
}

}  // namespace

TEST_CASE("a private directory is the caller's alone, and goes with all in it") {
  Scratch scratch;
  std::string path;
  {
    const auto directory = PrivateDirectory::make(PrivateKind::job, scratch.path().string() + "/");
    REQUIRE(directory);
    path = directory->path();
    CHECK(fs::path(path).parent_path() == scratch.path());
    struct stat info {};
    REQUIRE(::stat(path.c_str(), &info) == 0);
    CHECK((info.st_mode & 07777) == 0700);
    fs::create_directories(path + "/a/b");
    std::ofstream(path + "/a/b/c") << "x";
    fs::permissions(path + "/a", fs::perms::none);
  }
  CHECK(!fs::exists(path));
}

TEST_CASE("one that is kept stays") {
  Scratch scratch;
  std::string path;
  {
    auto directory = PrivateDirectory::make(PrivateKind::job, scratch.path());
    REQUIRE(directory);
    path = directory->path();
    directory->keep();
  }
  CHECK(fs::exists(path));
}

TEST_CASE("one that is adopted stays, with the mode that it has, until it is removed") {
  Scratch scratch;
  const std::string path = scratch / "nodestage-run-x";
  fs::create_directory(path);
  fs::permissions(path, fs::perms(0755));
  const std::string mark = mark_at(path);
  REQUIRE(PrivateDirectory::adopt(path, mark));
  CHECK(fs::status(path).permissions() == fs::perms(0755));
  auto adopted = PrivateDirectory::adopt(path, mark);
  REQUIRE(adopted);
  CHECK(adopted->remove());
  CHECK(!fs::exists(path));
  CHECK(PrivateDirectory::adopt(path, mark).error().code == ENOENT);
}

TEST_CASE("another directory of the caller's, put in the place of one, is not adopted") {
  Scratch scratch;
  const std::string path = scratch / "nodestage-run-x";
  const std::string thesis = scratch / "thesis";
  fs::create_directory(path);
  fs::create_directories(thesis + "/chapter");
  const std::string mark = mark_at(path);
  fs::rename(path, scratch / "away");
  fs::rename(thesis, path);
  CHECK(PrivateDirectory::adopt(path, mark).error().code == EPERM);
  CHECK(fs::exists(path + "/chapter"));
  fs::create_directory_symlink(scratch / "away", scratch / "link");
  CHECK_FALSE(PrivateDirectory::adopt(scratch / "link", mark));
}

TEST_CASE("what is mounted at the place of one is not entered") {
  if (::geteuid() != 0) return;
  Scratch scratch;
  const std::string path = scratch / "nodestage-run-x";
  fs::create_directory(path);
  fs::permissions(path, fs::perms::owner_all);
  REQUIRE(open_private(path));
  // In a name space of its own, which goes with the process.
  auto child = ChildProcess::start(Orphan::killed, [&] {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("", "/", "", MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", path.c_str(), "tmpfs", 0, "mode=700") != 0)
      return 77;
    const auto opened = open_private(path);
    return !opened && opened.error().code == EXDEV ? 0 : 1;
  });
  REQUIRE(child);
  CHECK(child->wait() == 0);
}

TEST_CASE("the kind of a directory is in its name, and what belongs together has one end of it") {
  Scratch scratch;
  const auto record = PrivateDirectory::make(PrivateKind::record, scratch.path());
  REQUIRE(record);
  const auto job = PrivateDirectory::make_beside(PrivateKind::job, *record);
  REQUIRE(job);
  CHECK(job->path() == path_beside(PrivateKind::job, record->path()));
  CHECK(path_beside(PrivateKind::record, job->path()) == record->path());
  for (const PrivateKind kind : {PrivateKind::job, PrivateKind::record, PrivateKind::memory})
    CHECK(private_kind(std::string(private_prefix(kind)) + "x") == kind);
  CHECK_FALSE(private_kind("nodestage-x"));
  CHECK(PrivateDirectory::make_beside(PrivateKind::job, *record).error().code == EEXIST);
}

TEST_CASE("one is adopted by its lock when nobody has it") {
  Scratch scratch;
  std::string path;
  {
    auto made = PrivateDirectory::make(PrivateKind::memory, scratch.path());
    REQUIRE(made);
    path = made->path();
    CHECK(PrivateDirectory::adopt_unlocked(path).error().code == EWOULDBLOCK);
    made->keep();
  }
  auto adopted = PrivateDirectory::adopt_unlocked(path);
  REQUIRE(adopted);
  CHECK(adopted->remove());
  CHECK_FALSE(fs::exists(path));
}

TEST_CASE("a parent that begins with ~ lies in the home directory") {
  Scratch scratch;
  const char* home = ::getenv("HOME");
  const std::string before = home == nullptr ? "" : home;
  ::setenv("HOME", scratch.path().c_str(), 1);
  fs::create_directory(scratch / "tmp");
  const auto directory = PrivateDirectory::make(PrivateKind::job, "~/tmp");
  ::setenv("HOME", before.c_str(), 1);
  REQUIRE(directory);
  CHECK(directory->path().starts_with(scratch / "tmp/nodestage-run-"));
}

TEST_CASE("by default it lies below TMPDIR; a parent that is missing is a fault") {
  Scratch scratch;
  ::setenv("TMPDIR", scratch.path().c_str(), 1);
  const auto directory = PrivateDirectory::make(PrivateKind::job, "");
  ::unsetenv("TMPDIR");
  REQUIRE(directory);
  CHECK(directory->path().starts_with(scratch.path().string() + "/nodestage-run-"));
  const auto missing = PrivateDirectory::make(PrivateKind::job, scratch / "missing");
  REQUIRE(!missing);
  CHECK(missing.error().what ==
        "cannot create a directory in " + (scratch / "missing") + ": No such file or directory");
}
