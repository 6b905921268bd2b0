// The `keep` task: stages one shared item for all who may read its source, as the keeper.
#pragma once

#include "common/request/request.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/worker/read/opened_sources.hpp"

namespace nodestage {

// Stages order.only_item of the request, from its sources in `items`, into k_worker_directory_fd,
// which is the keeper's, under the last part of the path of the one item in order.shared. All may
// read what is made, and nobody may write to it. Reports as run_stage() does, of one item.
int run_keep(KeepOrder order, const StageRequest& request, OpenedItems items);

}  // namespace nodestage
