// Kills processes of a user that have something open in a tree of results that is kept on the node:
// they could fill it after it was measured. Slurm has killed what it knows of the job, but a
// process of the user's other job, or one that has escaped, can have a descriptor there.
//
// Needs root. What is open is compared by device and inode, since a user has other paths in a mount
// name space of their own; who has mounted the tree there needs nothing open. Who keeps open files
// where /proc does not show them is killed without proof: in a message that no process receives, or
// in io_uring alone.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace nodestage {

// Kills them, looks again, and kills what is found then, in a process of its own and for some
// seconds at most: the caller never waits for what a user's process does. Returns the ids of those
// it killed. nodestage's own workers are spared: their cgroups are root's, or, where they have
// none, ask_workers() has their ids. It is called once in each look, when all processes that have
// root's program were seen; if it returns nothing, all these are spared. `directory` is root's.
using AskWorkers = std::function<std::optional<std::vector<std::string>>()>;
std::vector<int> kill_left_writers(const std::string& directory, std::uint32_t uid,
                                   const AskWorkers& ask_workers);

}  // namespace nodestage
