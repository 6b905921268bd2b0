#include <doctest/doctest.h>
#include <fcntl.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "cli/pack/tree_total.hpp"
#include "common/os/file.hpp"
#include "scratch.hpp"

using namespace nodestage;
namespace fs = std::filesystem;

namespace {

// The total, for which it waits a minute at most.
std::uint64_t total_of(int directory) {
  const TreeTotal total(directory);
  for (int i = 0; i < 6000 && total.bytes() == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return total.bytes();
}

}  // namespace

TEST_CASE("a tree's total: regular files at any depth, each once, and no links") {
  const Scratch scratch;
  fs::create_directories(scratch / "a/b/c");
  std::ofstream(scratch / "a/one") << std::string(1000, 'x');
  std::ofstream(scratch / "a/b/c/two") << std::string(234, 'x');
  fs::create_hard_link(scratch / "a/one", scratch / "a/b/again");
  fs::create_symlink("../one", scratch / "a/b/link");
  const auto directory = open_at(AT_FDCWD, scratch / "a", O_RDONLY | O_DIRECTORY);
  REQUIRE(directory);
  CHECK(total_of(directory->get()) == 1234);
}

TEST_CASE("a tree's total: what is no directory has none, and a count that is not awaited ends") {
  const Scratch scratch;
  for (int i = 0; i < 100; ++i) std::ofstream(scratch / std::to_string(i)) << "x";
  CHECK(TreeTotal(-1).bytes() == 0);
  const auto directory = open_at(AT_FDCWD, scratch.path().string(), O_RDONLY | O_DIRECTORY);
  REQUIRE(directory);
  const TreeTotal left(directory->get());
}
