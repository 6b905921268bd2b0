// What every child process of ours does between fork and its own work, and what it is given.
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

// A file in memory that nobody can change, read from offset 0: `text`.
Result<Fd> sealed_text(const char* name, const std::string& text);

// In the child: puts each descriptor of `from` at its index, the last of them closed by execve, and
// closes every other one.
Status place_descriptors(std::vector<int> from);

// In the child: default signals, none blocked, a session of its own, umask 077, no core file, an
// ordinary prey for the kernel's OOM killer, the root directory.
Status reset_process();

// As execve takes them: pointers to the texts, which they borrow, and a null pointer.
std::vector<char*> exec_texts(std::vector<std::string>& texts);

// In the child: becomes nodestage-worker, with no argument and an environment of its own. Returns
// only with a fault.
Error exec_worker(const std::string& program);

// Of a child: readable when it has ended.
Result<Fd> open_pid(int pid);

}  // namespace nodestage
