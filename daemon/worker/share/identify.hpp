// The `identify` task: the keys of a request's shared items (common/wire/worker_order.hpp).
#pragma once

#include <vector>

#include "common/request/request.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/worker/read/opened_sources.hpp"
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
//
// With order.hands_over, sources of items that can be kept for all who may read them go to
// k_worker_sources_fd, open (daemon/worker/read/opened_sources.hpp).
int run_identify(const IdentifyOrder& order, const StageRequest& request);

// Does the same for the items whose sources another process has opened, as the keeper: a key says
// that whoever opened them may read what was kept under it. What was changed lately is not kept.
int run_look(const LookOrder& order, const StageRequest& request, const OpenedItems& items);

// Returns whether an item can be kept for all who may read its source, as far as the request says.
bool is_for_readers(const DatasetItem& item);

}  // namespace nodestage
