// The sandbox of a worker: what it gives up by itself, once it knows its task and before it looks
// at anything that others wrote.
#pragma once

#include <string>
#include <vector>

#include "common/os/fd.hpp"
#include "common/result.hpp"
#include "common/wire/worker_order.hpp"

namespace nodestage {

// Which rights a task needs. (What pip and other programs need is in build_sandbox.hpp.)
enum class Profile {
  decode,  // reads and decodes what it does not trust, and writes files
};

// What holds now.
struct Sandbox {
  bool writes_confined = false;
  bool calls_filtered = false;
  std::string lacking;  // what this kernel does not offer: no fault
  std::string fault;    // what it does offer and this process could not enter, with the cause

  [[nodiscard]] bool holds() const { return writes_confined && calls_filtered; }
};

// Notes what confining where it writes, and which calls it makes, has come to.
void note_writes(Sandbox& sandbox, const Status& confined);
void note_calls(Sandbox& sandbox, const Status& filtered);

// Limits open files, memory dumps, the places to write to (below `places`) and the system calls.
// With Special::keep FIFOs can be made, too. What cannot be entered is left out. For a process
// without other threads that may go on.
Sandbox enter_sandbox(Profile profile, Special special, const std::vector<Fd>& places);
// The same, with the places to write to as they are: for one that cannot know them in time.
Sandbox enter_sandbox(Profile profile, Special special);

}  // namespace nodestage
