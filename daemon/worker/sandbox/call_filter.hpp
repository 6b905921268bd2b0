// Limits the system calls of a worker and of the programs that it starts (seccomp).
#pragma once

#include <string>

#include "common/result.hpp"
#include "common/wire/worker_order.hpp"

namespace nodestage {

// Finds out what this node's kernel offers to a process that confines itself.

// From this version of Landlock's interface on, entries can be renamed and linked between the
// directories below an allowed one, which staging needs.
inline constexpr int k_landlock_wanted = 2;

// Returns the version of Landlock (landlock_create_ruleset(2)); 0 if there is none or it is off;
// -errno if the kernel may have it and does not let this process use it.
int landlock_version();

// Returns whether the kernel has seccomp filters that kill a process, usable here or not.
bool has_seccomp_filters();

// Returns the fault, with the likely reason, for a failed system call of confinement.
Error confinement_error(const std::string& call, int code);

// Filters the calls of all present and future threads of this process, for good. Reading, decoding,
// and writing files is allowed. What only an intruder has a use for (running programs, tracing,
// opening sockets, mounting, loading code into the kernel, changing ids, creating processes) kills
// the process by SIGSYS. Anything else returns ENOSYS, as on an older kernel. Sets no_new_privs. A
// fault leaves everything as it was. With Special::keep, FIFOs can be created.
Status filter_calls(Special special);

// Does the same for a process that talks to others by TCP, over IPv4 and IPv6: it can open such
// sockets, connect them, listen, and use them. A socket of the AF_UNIX kind kills the process; of
// any other, it is ENOSYS. Calls that change names or attributes of files are ENOSYS, too.
Status filter_relay_calls();

// Does the same for a process that opens nothing: it reads and writes what it has open, and uses
// memory and threads.
Status filter_serve_calls();

// Does the same for a process that builds environments and everything that it starts: it cannot
// trace or read another process, create a namespace, open a socket other than AF_UNIX, or use the
// large parts of the kernel that no build needs. Such a call is refused (EPERM, EACCES; clone3
// ENOSYS). Anything else is allowed.
Status filter_build_calls();

}  // namespace nodestage
