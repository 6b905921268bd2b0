// The system calls that a worker may make (seccomp).
#pragma once

#include "common/result.hpp"

namespace nodestage {

// For all threads of this process, there now or later, and never undone: what reading, decoding and
// writing files takes is allowed. What no worker has a use for and an intruder has (to run
// programs, to trace, to open sockets, to mount, to load code into the kernel, to change ids, to
// make processes) ends the process by SIGSYS. Anything else answers ENOSYS, as an older kernel
// would. Sets no_new_privs. A fault leaves all as it was.
Status filter_calls();

}  // namespace nodestage
