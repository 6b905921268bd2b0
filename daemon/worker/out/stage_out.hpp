// The tasks `stage_out` and `recover`: deliver what --stage-out requested, to its targets or below
// a directory that is named later.
#pragma once

#include "common/request/request.hpp"
#include "common/wire/worker_order.hpp"

namespace nodestage {

// Runs as the job's user, without capabilities, on the descriptors of common/wire/worker_order.hpp.
// Sets the process's umask to the request's and ignores SIGXFSZ. Exit code 0: every item was
// delivered (also earlier: order.delivered) or had nothing to deliver (phase done). 1: some were
// not (phase failed; the cause has two lines, what happened and what to do). Writes one ItemRecord
// for each item of --stage-out, in their order.
int run_stage_out(const WorkerOrder& order, const StageRequest& request);

// To call instead if the request cannot be read: phase failed, exit code 1.
int refuse_stage_out(const WorkerOrder& order, const Error& error);

}  // namespace nodestage
