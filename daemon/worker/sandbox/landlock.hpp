// Landlock: this process and all threads that it starts write nowhere but below a few directories.
#pragma once

#include <span>

#include "common/os/fd.hpp"
#include "common/result.hpp"
#include "common/wire/worker_order.hpp"

namespace nodestage {

// From now on nothing is written, made, renamed, linked or removed but below `directories` (O_PATH
// does), no device or FIFO is made, no device controlled and no program run anywhere, no TCP port
// used, and no process outside sent a signal, as far as the kernel's version has it. Reading stays
// as it was, and so does what is open already. Never undone, only narrowed. Needs no_new_privs, and
// a process without other threads; a fault leaves all as it was.
// With Special::keep FIFOs can be made below `directories`, too.
Status confine_writes(std::span<const Fd> directories, Special special);

}  // namespace nodestage
