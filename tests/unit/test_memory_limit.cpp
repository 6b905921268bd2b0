#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/os/mounts.hpp"
#include "scratch.hpp"

using namespace nodestage;
namespace fs = std::filesystem;

namespace {

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

std::uint64_t of_node() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

TEST_CASE("the smallest limit of a cgroup and of those around it counts") {
  const Scratch scratch;
  const std::string proc = scratch / "proc";
  std::string options;
  std::string text;
  std::string file;
  std::string none;
  SUBCASE("version 1") {
    options = " rw - cgroup x rw,memory\n", text = "7:cpu:/a\n4:memory:/job/step\n";
    file = "memory.limit_in_bytes", none = "9223372036854771712\n";
  }
  SUBCASE("version 2") {
    options = " rw - cgroup2 x rw\n", text = "0::/job/step\n";
    file = "memory.max", none = "max\n";
  }
  write(proc + "/self/mountinfo", "30 24 0:26 / " + (scratch / "cg") + options);
  write(proc + "/self/cgroup", text);
  const fs::path job = scratch.path() / "cg/job";
  CHECK(memory_limit(proc) == of_node());
  write(job / "step" / file, none);
  write(job / file, none);
  CHECK(memory_limit(proc) == of_node());
  write(job / file, "1048576\n");
  CHECK(memory_limit(proc) == 1048576);
  write(job / "step" / file, "4096\n");
  CHECK(memory_limit(proc) == 4096);
}

TEST_CASE("without cgroups, the node's memory counts") {
  const Scratch scratch;
  CHECK(memory_limit(scratch / "proc") == of_node());
}
