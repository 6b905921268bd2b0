#include "daemon/worker/sandbox/build_sandbox.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "common/os/fd.hpp"
#include "daemon/worker/sandbox/call_filter.hpp"
#include "daemon/worker/sandbox/landlock_ruleset.hpp"

namespace nodestage {
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
