#include <doctest/doctest.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "cli/base/private_directory.hpp"
#include "scratch.hpp"

namespace fs = std::filesystem;
using namespace nodestage;

TEST_CASE("a private directory is the caller's alone, and goes with all in it") {
  Scratch scratch;
  std::string path;
  {
    const auto directory = PrivateDirectory::make(scratch.path().string() + "/");
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
    auto directory = PrivateDirectory::make(scratch.path());
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
  REQUIRE(PrivateDirectory::adopt(path));
  CHECK(fs::status(path).permissions() == fs::perms(0755));
  auto adopted = PrivateDirectory::adopt(path);
  REQUIRE(adopted);
  CHECK(adopted->remove());
  CHECK(!fs::exists(path));
  CHECK(PrivateDirectory::adopt(path).error().code == ENOENT);
}

TEST_CASE("a parent that begins with ~ lies in the home directory") {
  Scratch scratch;
  const char* home = ::getenv("HOME");
  const std::string before = home == nullptr ? "" : home;
  ::setenv("HOME", scratch.path().c_str(), 1);
  fs::create_directory(scratch / "tmp");
  const auto directory = PrivateDirectory::make("~/tmp");
  ::setenv("HOME", before.c_str(), 1);
  REQUIRE(directory);
  CHECK(directory->path().starts_with(scratch / "tmp/nodestage-run-"));
}

TEST_CASE("by default it lies below TMPDIR; a parent that is missing is a fault") {
  Scratch scratch;
  ::setenv("TMPDIR", scratch.path().c_str(), 1);
  const auto directory = PrivateDirectory::make("");
  ::unsetenv("TMPDIR");
  REQUIRE(directory);
  CHECK(directory->path().starts_with(scratch.path().string() + "/nodestage-run-"));
  const auto missing = PrivateDirectory::make(scratch / "missing");
  REQUIRE(!missing);
  CHECK(missing.error().what ==
        "cannot create a directory in " + (scratch / "missing") + ": No such file or directory");
}
