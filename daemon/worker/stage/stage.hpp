// The `stage` task: stages all datasets of a request, and its environment, into the job directory.
#pragma once

#include <optional>

#include "common/request/request.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/worker/read/opened_sources.hpp"
#include "daemon/worker/share/share_key.hpp"
#include "daemon/worker/venv/builder.hpp"

namespace nodestage {

// Inherits the descriptors of common/wire/worker_order.hpp; LC_CTYPE must be a UTF-8 locale. Sets
// the process's umask to the request's. Exit code 0: phase `done`; 1: phase `failed`, with its
// cause.
//
// Phases: starting, working, ready (all that the job waits for is in place), done. A dataset that
// is `optional` or `async`, or any with OnFailure::proceed, may fail; its record says so. The
// failure of any other causes the phase `failed` at once and stops the rest. `builder` is what
// start_builder() returned for this request; borrowed.
int run_stage(const StageOrder& order, const StageRequest& request, Builder* builder);

// Returns why nothing may be staged for this process's user (IdentifyOrder::only_groups). Call it
// before the worker's sandbox, which has no call for groups.
Status check_user(const IdentifyOrder& order);

// Starts the process that run_stage() needs for a request with an environment. Empty for any other
// request, and if order.refuse_venv says why there must be none. Call it before the worker's
// sandbox, in which no process can be created.
Result<std::optional<Builder>> start_builder(const StageOrder& order, const StageRequest& request);

// The `keep` task: stages shared items for all who may read their sources, as the keeper.

// Stages the items of order.shared, from their sources in `items`, into k_worker_directory_fd,
// which is the keeper's: the one at index i as <i>/<the last part of its path>. All may read what
// is made, and nobody may write to it. Reports as run_stage() does, of these items in this order;
// what is wrong with one of them does not stop the others.
int run_keep(KeepOrder order, const StageRequest& request, OpenedItems items);

}  // namespace nodestage
