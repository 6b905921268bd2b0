#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>

#include <filesystem>

#include "daemon/worker/write/entry_maker.hpp"
#include "piece_run.hpp"

using namespace nodestage;

TEST_CASE("where no more files may be open, those that are kept are closed") {
  const Scratch scratch;
  const Fd root(::open(scratch.path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit few{static_cast<rlim_t>(root.get()) + 12, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  int failed = 0;
  {
    DirectoryCache directories(root.get());
    for (int i = 0; i < 60; ++i) {
      if (!directories.open("a/b" + std::to_string(i))) ++failed;
    }
  }
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(failed == 0);
  for (int i = 0; i < 60; ++i)
    CHECK(std::filesystem::is_directory(scratch / ("a/b" + std::to_string(i))));
}

TEST_CASE("the directories on the way are kept open, too") {
  const Scratch scratch;
  const Fd root(::open(scratch.path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  DirectoryCache directories(root.get());
  REQUIRE(directories.open("a/b/c"));
  std::filesystem::rename(scratch / "a", scratch / "moved");
  REQUIRE(directories.open("a/b/d/e"));
  CHECK(std::filesystem::is_directory(scratch / "moved/b/d/e"));
  CHECK_FALSE(std::filesystem::exists(scratch / "a"));
  directories.forget();
  REQUIRE(directories.open("a/b"));
  CHECK(std::filesystem::is_directory(scratch / "a/b"));
}

TEST_CASE("what is on the way and no directory is told, and nothing is made beside it") {
  const Scratch scratch;
  const Fd root(::open(scratch.path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  std::filesystem::create_directory(scratch / "real");
  std::filesystem::create_directory_symlink("real", scratch / "link");
  write_file(scratch / "file", "x");
  DirectoryCache directories(root.get());
  CHECK(directories.open("link/a").error().code == ELOOP);
  CHECK(directories.open("link").error().code == ELOOP);
  CHECK(directories.open("file/a").error().code == ENOTDIR);
  CHECK(std::filesystem::is_empty(scratch / "real"));
}
