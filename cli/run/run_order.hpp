// The worker's order from `nodestage run`, in place of slurmd and the daemon.
#pragma once

#include <string>
#include <vector>

#include "common/request/request.hpp"
#include "common/wire/worker_order.hpp"

namespace nodestage {

// Uses the facts of the Slurm job that this process runs in, if any. Otherwise the job id is this
// process's id, the restart count and node index are 0, the job's name is the command's, and there
// is no array.
StageOutOrder run_order(const std::string& directory, const std::string& command);

// Returns the order's list of shared items, by which each is staged for this run alone.
std::vector<SharedItem> share_nothing(const StageRequest& request);

// Checks that every target's patterns have a value. The fault names the target and says what to do.
Status check_targets(const StageRequest& request, const NamedOrder& order);

}  // namespace nodestage
