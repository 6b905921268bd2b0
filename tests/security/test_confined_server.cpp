// Attack: an image has taken over the process that serves it, which makes whatever system call it
// likes, with the rights of the job's user: it reads the user's other files, writes, runs programs,
// talks to others.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "../unit/scratch.hpp"
#include "confined_run.hpp"

using namespace nodestage;
namespace fs = std::filesystem;

namespace {

std::string serve(std::vector<std::string> arguments, std::string* holds = nullptr) {
  arguments.insert(arguments.begin(), {"--serve", "-"});
  return confined(std::move(arguments), holds);
}

}  // namespace

TEST_CASE("both halves of a server's sandbox hold where the kernel has them") {
  std::string holds;
  serve({}, &holds);
  CHECK(holds == (has_landlock() ? "11" : "01"));
}

TEST_CASE("a server reads and writes what it has open, with threads") {
  const Scratch scratch;
  std::ofstream(scratch / "open") << "content";
  CHECK(serve({"ring", scratch / "open", "open-before"}) == "ring: yes 0\nopen-before: yes 0\n");
}

TEST_CASE("a server opens, looks at, and changes nothing by name") {
  const Scratch scratch;
  const std::string f = scratch / "f";
  const std::string n = scratch / "new";
  const std::string no = ": Function not implemented -1\n";
  std::ofstream(f) << "content";
  for (const std::string attempt : {"read", "look", "overwrite", "truncate", "remove", "mode",
                                    "create", "mkdir", "symlink", "fifo"}) {
    const bool makes_one =
        attempt == "create" || attempt == "mkdir" || attempt == "symlink" || attempt == "fifo";
    CHECK(serve({attempt, makes_one ? n : f}) == attempt + no);
  }
  CHECK(serve({"list", scratch.path().string()}) == "list" + no);
  for (const std::string attempt : {"rename", "link"})
    CHECK(serve({attempt, f, n}) == attempt + no);
  CHECK(fs::file_size(f) == 7);
  CHECK_FALSE(fs::exists(n));
}

TEST_CASE("a call that a server does not make ends the process at once") {
  check_deadly({"--serve", "-"}, {"socketpair", "tcp", "udp", "netlink"});
}
