// The tasks `stage_out` and `recover`: deliver what --stage-out asked for, to its targets or below
// a directory named later.
#pragma once

#include "common/request/request.hpp"
#include "common/wire/worker_order.hpp"

namespace nodestage {

// Runs as the job's user, without capabilities, on the descriptors of common/wire/worker_order.hpp.
// Sets the process's umask to the request's and ignores SIGXFSZ. Exit code 0: every item was
// delivered (earlier ones included: order.delivered) or had nothing to deliver (phase done); 1:
// some were not (phase failed, the cause in two lines: what, and what to do). One ItemRecord for
// each item of --stage-out, in their order.
int run_stage_out(const WorkerOrder& order, const StageRequest& request);

// Instead of it, for a request that cannot be read: phase failed, exit code 1.
int refuse_stage_out(const WorkerOrder& order, const Error& error);

}  // namespace nodestage
