// The sandbox of a worker: what it gives up once it knows its task, before it looks at anything
// that others wrote.
#pragma once

#include <string>
#include <vector>

#include "common/os/fd.hpp"
#include "common/result.hpp"
#include "common/wire/worker_rules.hpp"

namespace nodestage {

// The rights that a task needs. (build_sandbox.hpp has those of pip and other programs.)
enum class Profile {
  decode,  // reads and decodes untrusted data, and writes files
  relay,   // reads files, writes to what it has open, and talks to other nodes by TCP
};

// The confinement in force.
struct Sandbox {
  bool writes_confined = false;
  bool calls_filtered = false;
  std::string lacking;  // what this kernel does not offer; not a fault
  std::string fault;    // what the kernel offers but this process could not enter, with the cause

  [[nodiscard]] bool holds() const { return writes_confined && calls_filtered; }
};

// Records the results of confining writes and of filtering system calls.
void note_writes(Sandbox& sandbox, const Status& confined);
void note_calls(Sandbox& sandbox, const Status& filtered);

// Limits open files, memory dumps, the directories to write to (below `places`), and the system
// calls. With Special::keep, FIFOs can be created, too. Profile::relay has no places and nothing
// special. Leaves out what cannot be entered. Needs a process without other threads that may
// proceed.
Sandbox enter_sandbox(Profile profile, Special special, const std::vector<Fd>& places);
// Does the same without a limit on the directories, for a task that cannot know them.
Sandbox enter_sandbox(Profile profile, Special special);

}  // namespace nodestage
