// The `keep` task: stages shared items for all who may read their sources, as the keeper.
#pragma once

#include "common/request/request.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/worker/read/opened_sources.hpp"

namespace nodestage {

// Stages the items of order.shared, from their sources in `items`, into k_worker_directory_fd,
// which is the keeper's: the one at index i as <i>/<the last part of its path>. All may read what
// is made, and nobody may write to it. Reports as run_stage() does, of these items in this order;
// what is wrong with one of them does not stop the others.
int run_keep(KeepOrder order, const StageRequest& request, OpenedItems items);

}  // namespace nodestage
