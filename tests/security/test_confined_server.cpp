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
  std::ofstream(f) << "content";
  for (const auto& [attempt, path] :
       std::vector<std::pair<std::string, std::string>>{{"read", f},
                                                        {"list", scratch.path().string()},
                                                        {"look", f},
                                                        {"create", n},
                                                        {"overwrite", f},
                                                        {"truncate", f},
                                                        {"remove", f},
                                                        {"mkdir", n},
                                                        {"symlink", n},
                                                        {"mode", f},
                                                        {"fifo", n}}) {
    CAPTURE(attempt);
    CHECK(serve({attempt, path}) == attempt + ": Function not implemented -1\n");
  }
  for (const std::string attempt : {"rename", "link"})
    CHECK(serve({attempt, f, n}) == attempt + ": Function not implemented -1\n");
  CHECK(fs::file_size(f) == 7);
  CHECK_FALSE(fs::exists(n));
}

TEST_CASE("a call that a server does not make ends the process at once") {
  for (const char* attempt :
       {"execve", "system",      "fork",     "clone-namespace", "unshare", "setns",
        "ptrace", "read-memory", "kill",     "socketpair",      "tcp",     "udp",
        "unix",   "netlink",     "mount",    "chroot",          "setuid",  "bpf",
        "perf",   "keyctl",      "io-uring", "userfaultfd",     "module",  "by-handle"}) {
    CAPTURE(attempt);
    CHECK(serve({attempt}) == " (child ended with status 31)");  // SIGSYS
  }
}
