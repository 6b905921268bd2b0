#include <doctest/doctest.h>

#include <filesystem>

#include "cli/run/run_memory.hpp"
#include "scratch.hpp"

using namespace nodestage;
namespace fs = std::filesystem;

namespace {

StageRequest in_memory() {
  StageRequest request;
  request.datasets.push_back({"/p/data"});
  request.datasets.back().storage = Storage::memory;
  return request;
}

}  // namespace

TEST_CASE("a run has a directory in memory only if it asks for one") {
  const Scratch scratch;
  const auto none = make_run_memory({}, scratch.path().c_str());
  REQUIRE(none);
  CHECK_FALSE(*none);
  CHECK(fs::is_empty(scratch.path()));
}

TEST_CASE("what a killed run left in memory is removed, and what a living one has stays") {
  const Scratch scratch;
  const char* const parent = scratch.path().c_str();
  std::string dead;
  {
    auto killed = make_run_memory(in_memory(), parent);
    REQUIRE(killed);
    dead = (*killed)->path();
    fs::create_directory(dead + "/data");
    (*killed)->keep();
  }
  auto living = make_run_memory(in_memory(), parent);
  REQUIRE(living);
  const std::string path = (*living)->path();
  fs::create_directory(scratch / "nodestage-other");
  fs::create_directory_symlink(scratch / "nodestage-other", scratch / "nodestage-run-link");
  clear_dead_memory(parent);
  CHECK_FALSE(fs::exists(dead));
  CHECK(fs::exists(path));
  CHECK(fs::exists(scratch / "nodestage-other"));
  CHECK(fs::is_symlink(scratch / "nodestage-run-link"));
  REQUIRE((*living)->remove());
  CHECK_FALSE(fs::exists(path));
}
