// Kills processes of a user that have something open in a tree of results that is kept on the node:
// they could fill it after it was measured. Slurm has killed what it knows of the job, but a
// process of the user's other job, or one that has escaped, can have a descriptor there.
//
// Needs root. What is open for writing is compared by device and inode, since a user has other
// paths in a mount name space of their own; who has mounted the tree there needs nothing open. Who
// keeps open files where /proc does not show them is killed without proof: in a message that no
// process receives, or in io_uring alone. Neither is held against a process in the cgroup of
// another job; where Slurm makes none, it cannot be told apart, and only proof counts.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace nodestage {

struct EndedJob {
  std::uint32_t job = 0;
  std::uint32_t uid = 0;
  bool has_cgroups = true;  // Slurm puts all processes of jobs into cgroups
};

// Process → why it was killed.
enum class Proof { open, hidden };
using KilledWriters = std::map<int, Proof>;

// Kills them, looks again, and kills what is found then, in a process of its own and for some
// seconds at most: the caller never waits for what a user's process does. nodestage's own workers
// are spared: their cgroups are root's, or, where they have none, ask_workers() has their ids. It
// is called once in each look, when all processes that have root's program were seen; if it returns
// nothing, all these are spared. `directory` is root's.
using AskWorkers = std::function<std::optional<std::vector<std::string>>()>;
KilledWriters kill_left_writers(const std::string& directory, const EndedJob& job,
                                const AskWorkers& ask_workers);

}  // namespace nodestage
