// Does what each of our child processes needs between fork and its own work.
#pragma once

#include <string>
#include <vector>

#include "common/os/fd.hpp"
#include "common/result.hpp"

namespace nodestage {

struct Pipe {
  Fd read;
  Fd write;
};
Result<Pipe> make_pipe();

// Returns a sealed file in memory with `text` as contents, at offset 0. `name` is for /proc only.
Result<Fd> sealed_text(const char* name, const std::string& text);

// Moves, in the child, each descriptor of `from` to its index (execve closes the last of them) and
// closes all others.
Status place_descriptors(std::vector<int> from);

// In the child: sets default signal handlers, unblocks all signals, starts a new session, sets
// umask 077, disables core files, resets oom_score_adj to 0, and changes to the root directory.
Status reset_process();

// Returns the argument list that execve takes: pointers into `texts`, which must outlive them, and
// a null pointer.
std::vector<char*> exec_texts(std::vector<std::string>& texts);

// Executes, in the child, nodestage-worker without arguments, in an environment of its own. Returns
// only if that fails.
Error exec_worker(const std::string& program);

// Returns a pidfd for a child, which becomes readable when the child exits.
Result<Fd> open_pid(int pid);

}  // namespace nodestage
