// Landlock: lets this process and all threads that it starts write only below a few directories.
#pragma once

#include <span>

#include "common/os/fd.hpp"
#include "common/result.hpp"
#include "common/wire/worker_rules.hpp"

namespace nodestage {

// Forbids, as far as the kernel's version supports it: writing, creating, renaming, linking, and
// removing except below `directories` (O_PATH is enough); creating devices and FIFOs; controlling
// devices and running programs; TCP ports; signals to processes outside. Reading and open files
// stay as they were. This cannot be undone, only narrowed. Needs no_new_privs and a process without
// other threads. A fault leaves everything as it was. With Special::keep, FIFOs can also be created
// below `directories`.
Status confine_writes(std::span<const Fd> directories, Special special);

// Does the same without a directory: only open files can be written. TCP ports can be used.
Status confine_to_network();

}  // namespace nodestage
