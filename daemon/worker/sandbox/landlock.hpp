// Landlock: lets this process and all threads that it starts write only below a few directories.
#pragma once

#include <span>

#include "common/os/fd.hpp"
#include "common/result.hpp"
#include "common/wire/worker_rules.hpp"

namespace nodestage {

// From now on, as far as the kernel's version supports it: nothing is written, created, renamed,
// linked, or removed except below `directories` (O_PATH is enough); no device or FIFO is created;
// no device is controlled and no program run anywhere; no TCP port is used; no process outside is
// sent a signal. Reading stays as it was, and so do open files. Cannot be undone, only narrowed.
// Needs no_new_privs and a process without other threads. A fault leaves everything as it was. With
// Special::keep, FIFOs can also be created below `directories`.
Status confine_writes(std::span<const Fd> directories, Special special);

// The same without a directory: nothing is written but open files. TCP ports can be used.
Status confine_to_network();

}  // namespace nodestage
