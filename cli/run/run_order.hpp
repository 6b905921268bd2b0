// What `nodestage run` tells the worker, in the place of slurmd and the daemon.
#pragma once

#include <string>

#include "common/request/request.hpp"
#include "common/wire/worker_order.hpp"

namespace nodestage {

// Of the Slurm job that this process runs in, where there is one. Else: the job id is this
// process's id, restart count and node number are 0, the job's name is the command's, and it is no
// array.
WorkerOrder run_order(const std::string& directory, const std::string& command);

// Whether every target's patterns have a value; the fault names the target and says what to do.
Status check_targets(const StageRequest& request, const WorkerOrder& order);

}  // namespace nodestage
