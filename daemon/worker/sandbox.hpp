// The sandbox of a worker: what it gives up by itself, once it knows its task and before it looks
// at anything that others wrote.
#pragma once

#include <string>
#include <vector>

#include "common/fd.hpp"
#include "common/worker_order.hpp"

namespace nodestage {

// Which rights a task needs. (What pip and other programs need is in build_sandbox.hpp.)
enum class Profile {
  decode,  // reads and decodes what it does not trust, and writes files
};

// What holds now.
struct Sandbox {
  bool writes_confined = false;
  bool calls_filtered = false;
  std::string missing;  // why not; empty: all holds
};

// Limits open files, memory dumps, the places to write to (below `places`) and the system calls.
// With Special::keep FIFOs can be made, too. What the kernel lacks is left out. For a process
// without other threads that may go on.
Sandbox enter_sandbox(Profile profile, Special special, const std::vector<Fd>& places);
// The same, with the places to write to as they are: for one that cannot know them in time.
Sandbox enter_sandbox(Profile profile, Special special);

}  // namespace nodestage
