#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>

#include <filesystem>

#include "daemon/worker/directory_cache.hpp"
#include "scratch.hpp"

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
