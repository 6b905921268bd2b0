// Where a worker's task may write.
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "common/os/file.hpp"
#include "common/request/request.hpp"
#include "common/wire/worker_order.hpp"

namespace nodestage {

// Tests whether a worker can confine itself on this node, with the program and the start that
// workers have, so that what the daemon's unit forbids is found as a worker would find it.

// Enters both sandboxes, a worker's and that of a process that builds environments, and writes the
// result to the status file. Phase `done`: `cause` is empty or names what the kernel lacks. Phase
// `failed`: `cause` says what could not be entered, and why. Returns the exit code.
int run_probe();

// The directories below which the task writes, for its sandbox. Links are followed on the way, as
// the task follows them. For a target that does not exist yet: the last directory on its path that
// exists. Empty if a file system does not answer within `patience`; a thread may then hang in it
// for as long as the process lives. job_fd: the job directory, borrowed.
std::optional<std::vector<Fd>> write_places(const WorkerOrder& order, const StageRequest& request,
                                            int job_fd, std::chrono::milliseconds patience);

}  // namespace nodestage
