// Attack: an archive has taken over the worker, which now makes whatever system call it likes, with
// the rights of the job's user: writes to the user's other files, runs programs, reads other
// processes, opens sockets, goes for the kernel.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "../unit/scratch.hpp"
#include "confined_run.hpp"

using namespace nodestage;
namespace fs = std::filesystem;

namespace {

// A place where it may write, and a file outside.
struct Ground {
  Scratch scratch;
  std::string in = scratch / "in";
  std::string out = scratch / "out";
  Ground() {
    for (const auto& directory : {in, out}) {
      fs::create_directories(directory + "/d");
      std::ofstream(directory + "/f") << "content";
    }
  }
  // The answer to one attempt.
  [[nodiscard]] std::string tried(std::vector<std::string> attempt) const {
    attempt.insert(attempt.begin(), in);
    const std::string said = confined(attempt);
    return said.substr(std::min(said.find(": ") + 2, said.size()));
  }
};

}  // namespace

TEST_CASE("both halves of the sandbox hold where the kernel has them") {
  std::string holds;
  confined({"-"}, &holds);
  CHECK(holds == (landlock_version() >= k_landlock_wanted ? "11" : "01"));
}

TEST_CASE("a filter of the daemon's that forbids the sandbox is no kernel without one") {
  for (const int code : {EPERM, ENOSYS}) {
    std::string holds;
    const std::string said = confined({"--refused", std::to_string(code)}, &holds);
    CAPTURE(said);
    CHECK(holds == "00");
    const std::string fault = said.substr(0, said.find("\nlacking: "));
    CHECK(fault.find("its system calls are not filtered: seccomp: ") != std::string::npos);
    CHECK(fault.find("refused by a filter of system calls") != std::string::npos);
    // The list of the kernel's modules tells the one from the other, where it is mounted.
    if (!has_landlock() || (code == ENOSYS && !fs::exists("/sys/kernel/security/lsm"))) continue;
    CHECK(fault.find("where it writes is not confined: landlock_create_ruleset: ") !=
          std::string::npos);
    CHECK(said.ends_with("lacking: \n"));
  }
}

TEST_CASE("nothing outside is written, made, moved, linked or removed") {
  if (!has_landlock()) return;
  const Ground at;
  const std::string f = at.out + "/f";
  const std::string n = at.out + "/new";
  CHECK(at.tried({"create", n}) == "Permission denied -1\n");
  CHECK(at.tried({"overwrite", f}) == "Permission denied -1\n");
  if (landlock_version() >= 3) CHECK(at.tried({"truncate", f}) == "Function not implemented -1\n");
  CHECK(at.tried({"remove", f}) == "Permission denied -1\n");
  CHECK(at.tried({"rmdir", at.out + "/d"}) == "Permission denied -1\n");
  CHECK(at.tried({"mkdir", n}) == "Permission denied -1\n");
  CHECK(at.tried({"symlink", n}) == "Permission denied -1\n");
  CHECK(at.tried({"rename", at.in + "/f", n}) != "yes 0\n");
  CHECK(at.tried({"rename", f, at.in + "/new"}) != "yes 0\n");
  CHECK(at.tried({"link", f, at.in + "/new"}) != "yes 0\n");
  CHECK(at.tried({"in-thread", n}) == "Permission denied -1\n");
  CHECK(at.tried({"create", "/tmp/nodestage-confined"}) == "Permission denied -1\n");
  CHECK(fs::file_size(f) == 7);
  CHECK_FALSE(fs::exists(n));
}

TEST_CASE("a link inside leads nobody out") {
  if (!has_landlock()) return;
  const Ground at;
  fs::create_symlink(at.out, at.in + "/link");
  CHECK(at.tried({"create", at.in + "/link/new"}) == "Permission denied -1\n");
  CHECK(at.tried({"overwrite", at.in + "/link/f"}) == "Permission denied -1\n");
  CHECK_FALSE(fs::exists(at.out + "/new"));
}

TEST_CASE("what staging does inside it may do, and read anywhere") {
  const Ground at;
  CHECK(confined({at.in,          "create",     at.in + "/a",   "mkdir",      at.in + "/e",
                  "rename",       at.in + "/a", at.in + "/e/a", "link",       at.in + "/e/a",
                  at.in + "/d/b", "symlink",    at.in + "/s",   "remove",     at.in + "/e/a",
                  "rmdir",        at.in + "/e", "in-thread",    at.in + "/t", "read",
                  at.out + "/f",  "read",       "/etc/passwd",  "open-before"}) ==
        "create: yes 0\nmkdir: yes 0\nrename: yes 0\nlink: yes 0\nsymlink: yes 0\n"
        "remove: yes 0\nrmdir: yes 0\nin-thread: yes 0\nread: yes 0\nread: yes 0\n"
        "open-before: yes 0\n");
}

TEST_CASE("a delivery while the job runs may look for writers and lower its priority") {
  const Ground at;
  CHECK(confined({at.in, "lease", at.in + "/f", "priority"}) == "lease: yes 0\npriority: yes 0\n");
}

TEST_CASE("no socket, FIFO or device is made, not even inside") {
  if (!has_landlock()) return;
  const Ground at;
  CHECK(at.tried({"socket-file", at.in + "/new"}) != "yes 0\n");
  CHECK(at.tried({"fifo", at.in + "/new"}) != "yes 0\n");
}

TEST_CASE("where FIFOs are kept, they and nothing else can be made, and inside alone") {
  const Ground at;
  const auto tried = [&at](const std::string& attempt, const std::string& path) {
    const std::string said = confined({"--keep-special", at.in, attempt, path});
    return said.substr(std::min(said.find(": ") + 2, said.size()));
  };
  CHECK(tried("fifo", at.in + "/new") == "yes 0\n");
  CHECK(tried("socket-at", at.in + "/socket") == "Function not implemented -1\n");
  CHECK(tried("device-at", at.in + "/device") == "Function not implemented -1\n");
  if (has_landlock()) CHECK(tried("fifo", at.out + "/new") == "Permission denied -1\n");
}

TEST_CASE("a call that no worker makes ends the process at once") { check_deadly({"-"}, {"tcp"}); }

TEST_CASE("calls of another machine's kind are no way around") {
  const std::string said = confined({"-", "i386"});
  CHECK(said.find("yes") == std::string::npos);
  CHECK(said.find("(child ended with status ") != std::string::npos);
}

TEST_CASE("what is not known is not there; limits stay; a fault of its own may end it") {
  CHECK(confined({"-", "unknown-call", "clone3", "limits", "signal-by-thread"}) ==
        "unknown-call: Function not implemented -1\nclone3: Function not implemented -1\n"
        "limits: Function not implemented -1\nsignal-by-thread: Function not implemented -1\n");
  CHECK(confined({"-", "abort"}) == " (child ended with status 6)");
  CHECK(confined({"-", "dump-bytes"}) == "dump-bytes: yes 0\n");
  const std::string files = confined({"-", "open-files"});
  CHECK(std::stoi(files.substr(files.find("yes ") + 4)) <= 64 * 1024);
}
