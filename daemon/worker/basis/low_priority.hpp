// For tasks that nobody waits for.
#pragma once

namespace nodestage {

// Lowers this process's priority (nice 19) and its I/O priority (idle), as far as the kernel
// allows. The sandbox allows it, too.
void lower_priority();

}  // namespace nodestage
