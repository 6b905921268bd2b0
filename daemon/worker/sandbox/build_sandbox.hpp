// The sandbox of a process that builds environments: it runs pip and, with venv.build = "any",
// other people's code.
#pragma once

#include "daemon/worker/sandbox/sandbox.hpp"

namespace nodestage {

// Confines this process and everything that it starts, for good. No other thread may run.
// no_new_privs must be set; without it only core files are limited, and that is reported as
// lacking. Core files are disabled, the system calls of filter_build_calls() are refused (so there
// is no network), and Landlock applies as far as the kernel has it:
//   ABI 2   files and directories are created, changed, and removed only below job_fd; of the
//           devices, null and zero can be written
//   ABI 3   the same for truncating
//   ABI 5   no ioctl on devices
//   ABI 6   no signal to a process outside, no abstract unix socket of one
// A private /dev would need privilege, so whatever the user may read can be read.
Sandbox enter_build_sandbox(int job_fd);

}  // namespace nodestage
