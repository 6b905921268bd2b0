// Attack: another node of the job, or a stranger on the network, has taken over the process that
// relays. It makes whatever system call it likes, with the rights of the job's user.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "../unit/scratch.hpp"
#include "confined_run.hpp"

using namespace nodestage;
namespace fs = std::filesystem;

namespace {

std::string relay(std::vector<std::string> arguments, std::string* holds = nullptr) {
  arguments.insert(arguments.begin(), {"--relay", "-"});
  return confined(std::move(arguments), holds);
}

}  // namespace

TEST_CASE("both halves of a relay's sandbox hold where the kernel has them") {
  std::string holds;
  relay({}, &holds);
  CHECK(holds == (has_landlock() ? "11" : "01"));
}

TEST_CASE("a relay talks by TCP, reads anywhere, and writes to what it has open") {
  const Scratch scratch;
  std::ofstream(scratch / "spool") << "content";
  CHECK(relay({"talk-4", "ring", scratch / "spool", "read", "/etc/passwd", "open-before"}) ==
        "talk-4: yes 0\nring: yes 0\nread: yes 0\nopen-before: yes 0\n");
  std::string first(1, ' ');
  std::ifstream(scratch / "spool").read(first.data(), 1);
  CHECK(first == "x");
  CHECK(fs::file_size(scratch / "spool") == 3);
  if (fs::exists("/proc/net/if_inet6")) CHECK(relay({"talk-6"}) == "talk-6: yes 0\n");
}

TEST_CASE("a relay has no other sockets") {
  const std::string no = "Function not implemented -1\n";
  CHECK(relay({"udp", "raw", "netlink"}) == "udp: " + no + "raw: " + no + "netlink: " + no);
}

TEST_CASE("a relay writes, makes, moves and removes nothing by name") {
  const Scratch scratch;
  const std::string f = scratch / "f";
  const std::string n = scratch / "new";
  std::ofstream(f) << "content";
  fs::create_directory(scratch / "d");
  const std::string no = "Function not implemented -1\n";
  CHECK(relay({"remove", f, "rmdir", scratch / "d", "mkdir", n, "symlink", n, "mode", f, "truncate",
               f, "socket-at", n, "device-at", n, "fifo", n}) ==
        "remove: " + no + "rmdir: " + no + "mkdir: " + no + "symlink: " + no + "mode: " + no +
            "truncate: " + no + "socket-at: " + no + "device-at: " + no + "fifo: " + no);
  CHECK(relay({"rename", f, n}) == "rename: " + no);
  CHECK(relay({"link", f, n}) == "link: " + no);
  CHECK(fs::file_size(f) == 7);
  CHECK_FALSE(fs::exists(n));
  if (!has_landlock()) return;
  CHECK(relay({"create", n, "overwrite", f}) ==
        "create: Permission denied -1\noverwrite: Permission denied -1\n");
  CHECK_FALSE(fs::exists(n));
}

TEST_CASE("a call that a relay does not make ends the process at once") {
  check_deadly({"--relay", "-"}, {"socketpair"});
}
