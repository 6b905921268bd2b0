// Runs the program `confined` (confined.cpp).
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>

#include <string>
#include <vector>

#include "as_child.hpp"
#include "daemon/worker/sandbox/call_filter.hpp"

namespace nodestage {

// What the program prints but for its first line, which tells what holds.
inline std::string confined(std::vector<std::string> arguments, std::string* holds = nullptr) {
  arguments.insert(arguments.begin(), NODESTAGE_CONFINED);
  std::string said = as_child([&] {
    std::vector<char*> argv;
    for (auto& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    ::dup2(::open("/dev/null", O_WRONLY), 2);
    ::execv(argv[0], argv.data());
    return std::string("no execv");
  });
  const std::size_t line = said.find('\n');
  REQUIRE(line == 2);
  if (holds != nullptr) *holds = said.substr(0, line);
  return said.substr(line + 1);
}

// Each of `attempts`, and of those that no worker makes, ends the process at once in the sandbox
// that the first arguments name.
inline void check_deadly(const std::vector<std::string>& sandbox,
                         std::vector<std::string> attempts) {
  for (const char* attempt :
       {"execve",   "system",      "execveat", "fork",        "vfork", "clone-namespace",
        "unshare",  "setns",       "ptrace",   "read-memory", "kill",  "unix",
        "mount",    "chroot",      "setuid",   "bpf",         "perf",  "keyctl",
        "io-uring", "userfaultfd", "module",   "by-handle"})
    attempts.emplace_back(attempt);
  for (const std::string& attempt : attempts) {
    CAPTURE(attempt);
    std::vector<std::string> arguments = sandbox;
    arguments.push_back(attempt);
    CHECK(confined(arguments) == " (child ended with status 31)");  // SIGSYS
  }
}

inline bool has_landlock() {
  if (landlock_version() >= k_landlock_wanted) return true;
  MESSAGE("skipped: this kernel has no Landlock");
  return false;
}

}  // namespace nodestage
