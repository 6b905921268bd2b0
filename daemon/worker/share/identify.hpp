// The `identify` task: the keys of a request's shared items (common/wire/shared_item.hpp).
#pragma once

#include <vector>

#include "common/request/request.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/worker/share/share_key.hpp"

namespace nodestage {

// Identifies each item, in the request's order; an empty one for an item without `shared`. Needs
// the rights of the job's user. Reads little, whatever the sources' sizes: at most 64 MiB of an
// item that was changed lately, and the names in directories (tree_look.hpp).
std::vector<SourceIdentity> identities_of(const IdentifyOrder& order, const StageRequest& request);

// An item that was changed too lately to be kept has the flag k_item_unsettled, and in `ended_ms`
// from when on it can be.
//
// If it is ended before, the reason for each shared item is that this took too long.
//
// Inherits the descriptors of common/wire/worker_order.hpp. Reports one ItemRecord for each item,
// in the request's order, and the phase done. An item that cannot be read is not kept; the task
// `stage` reports that fault. Returns the exit code.
int run_identify(const IdentifyOrder& order, const StageRequest& request);

}  // namespace nodestage
