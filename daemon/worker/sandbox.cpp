#include "daemon/worker/sandbox.hpp"

#include <sys/prctl.h>
#include <sys/resource.h>

#include <algorithm>

#include "daemon/worker/call_filter.hpp"
#include "daemon/worker/landlock.hpp"

namespace nodestage {
namespace {

// Each writer keeps 64 directories open, and a job may have hundreds of CPUs.
constexpr rlim_t k_open_files = 64 * 1024;

// Not limited here: memory (RLIMIT_AS counts what is only reserved, so each thread's stack and
// heap; the worker's cgroup has worker.memory), processes (RLIMIT_NPROC counts all of the user's;
// the cgroup has worker.pids, and fork() is deadly), the size of a file (the disk is admitted as a
// whole, allowance.hpp), CPU time (the daemon limits the time that a task takes).
void limit_resources() {
  const rlimit no_dump{0, 0};
  static_cast<void>(::setrlimit(RLIMIT_CORE, &no_dump));
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max = std::min(files.rlim_max, k_open_files);
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &files));
}

void add_missing(Sandbox& sandbox, const std::string& text) {
  if (!sandbox.missing.empty()) sandbox.missing += "; ";
  sandbox.missing += text;
}

void filter(Sandbox& sandbox, Profile profile, Special special) {
  switch (profile) {
    case Profile::decode: {
      const Status filtered = filter_calls(special);
      sandbox.calls_filtered = static_cast<bool>(filtered);
      if (!filtered) add_missing(sandbox, "system calls: " + filtered.error().what);
    }
  }
}

}  // namespace

Sandbox enter_sandbox(Profile profile, Special special, const std::vector<Fd>& places) {
  static_cast<void>(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));  // set already, but in tests
  Sandbox sandbox;
  limit_resources();
  const Status confined = confine_writes(places, special);
  sandbox.writes_confined = static_cast<bool>(confined);
  if (!confined) add_missing(sandbox, "places to write to: " + confined.error().what);
  filter(sandbox, profile, special);
  return sandbox;
}

Sandbox enter_sandbox(Profile profile, Special special) {
  Sandbox sandbox;
  limit_resources();
  add_missing(sandbox, "places to write to: a target's file system does not answer");
  filter(sandbox, profile, special);
  return sandbox;
}

}  // namespace nodestage
