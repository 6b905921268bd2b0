#include "daemon/worker/sandbox/sandbox.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include <algorithm>

#include "common/os/file.hpp"
#include "daemon/worker/sandbox/call_filter.hpp"
#include "daemon/worker/sandbox/landlock.hpp"

namespace nodestage {
namespace {

// Each writer keeps 64 directories open, and a job may have hundreds of CPUs.
constexpr rlim_t k_open_files = 64 * 1024;

// Not limited here: memory (RLIMIT_AS also counts what is only reserved, such as each thread's
// stack and heap; the worker's cgroup has worker.memory), processes (RLIMIT_NPROC counts all of the
// user's; the cgroup has worker.pids, and fork() is deadly), the size of a file (the disk is
// admitted as a whole, space.hpp), CPU time (the daemon limits the duration of a task).
void limit_resources() {
  const rlimit no_dump{0, 0};
  static_cast<void>(::setrlimit(RLIMIT_CORE, &no_dump));
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max = std::min(files.rlim_max, k_open_files);
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &files));
}

void add(std::string& list, const std::string& text) {
  if (!list.empty()) list += "; ";
  list += text;
}

void filter(Sandbox& sandbox, Profile profile, Special special) {
  switch (profile) {
    case Profile::decode:
      return note_calls(sandbox, filter_calls(special));
    case Profile::relay:
      return note_calls(sandbox, filter_relay_calls());
  }
}

Status confine(Profile profile, Special special, const std::vector<Fd>& places) {
  return profile == Profile::relay ? confine_to_network() : confine_writes(places, special);
}

}  // namespace

void note_writes(Sandbox& sandbox, const Status& confined) {
  sandbox.writes_confined = static_cast<bool>(confined);
  if (confined) return;
  const int version = landlock_version();
  const bool is_offered = version < 0 || version >= k_landlock_wanted;
  add(is_offered ? sandbox.fault : sandbox.lacking,
      "where it writes is not confined: " + confined.error().text());
}

void note_calls(Sandbox& sandbox, const Status& filtered) {
  sandbox.calls_filtered = static_cast<bool>(filtered);
  if (filtered) return;
  add(has_seccomp_filters() ? sandbox.fault : sandbox.lacking,
      "its system calls are not filtered: " + filtered.error().text());
}

Sandbox enter_sandbox(Profile profile, Special special, const std::vector<Fd>& places) {
  static_cast<void>(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));  // already set, except in tests
  Sandbox sandbox;
  limit_resources();
  note_writes(sandbox, confine(profile, special, places));
  filter(sandbox, profile, special);
  return sandbox;
}

Sandbox enter_sandbox(Profile profile, Special special) {
  Sandbox sandbox;
  limit_resources();
  filter(sandbox, profile, special);
  return sandbox;
}

namespace {

Status restrict_writes(int job_fd) {
  TRY_ASSIGN(const LandlockRuleset rules, LandlockRuleset::make(k_landlock_all_writes));
  TRY(rules.allow(job_fd, k_landlock_all_writes));
  for (const char* path : {"/dev/null", "/dev/zero"}) {
    const Fd device(::open(path, O_PATH | O_CLOEXEC));
    if (!device) continue;
    TRY(rules.allow(device.get(),
                    k_landlock_write_file | k_landlock_truncate | k_landlock_control_device));
  }
  return rules.enter();
}

}  // namespace

Sandbox enter_build_sandbox(int job_fd) {
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  Sandbox sandbox;
  if (::prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) {
    sandbox.lacking = "no_new_privs is not set";
    return sandbox;
  }
  note_writes(sandbox, restrict_writes(job_fd));
  note_calls(sandbox, filter_build_calls());
  return sandbox;
}

}  // namespace nodestage
