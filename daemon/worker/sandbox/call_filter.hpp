// The system calls that a worker, and what it starts, may make (seccomp).
#pragma once

#include "common/result.hpp"
#include "common/wire/worker_order.hpp"

namespace nodestage {

// For all threads of this process, there now or later, and never undone: what reading, decoding and
// writing files takes is allowed. What no worker has a use for and an intruder has (to run
// programs, to trace, to open sockets, to mount, to load code into the kernel, to change ids, to
// make processes) ends the process by SIGSYS. Anything else answers ENOSYS, as an older kernel
// would. Sets no_new_privs. A fault leaves all as it was. With Special::keep FIFOs can be made.
Status filter_calls(Special special);

// The same for a process that builds environments, and for all that it starts: no other process is
// traced or read, no namespace made, no socket but of AF_UNIX, and none of the kernel's large parts
// used that no build needs. Such a call is refused (EPERM, EACCES; clone3 ENOSYS). Anything else is
// allowed.
Status filter_build_calls();

}  // namespace nodestage
