// The bounds of a process that builds environments: it runs pip, and with venv.build = "any"
// strangers' code.
#pragma once

#include "daemon/worker/sandbox/sandbox.hpp"

namespace nodestage {

// For this process and all that it will start, for good; no_new_privs must be set (without it
// nothing but core files is limited, and that is told as lacking), no other thread may run. No core
// files, the system calls of filter_build_calls() (so no network), and as far as the kernel's
// Landlock goes, which may not be there at all:
//   ABI 2   files and directories are made, changed and removed below job_fd alone; of devices,
//           null and zero may be written
//   ABI 3   truncated, too
//   ABI 5   no ioctl on devices
//   ABI 6   no signal to a process outside, no abstract unix socket of one
// A private /dev would need privilege: what the user may read, can be read.
Sandbox enter_build_sandbox(int job_fd);

}  // namespace nodestage
