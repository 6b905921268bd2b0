// The `identify` task: the keys of a request's shared items (common/wire/worker_order.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/request/request.hpp"
#include "common/result.hpp"
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

// The `compare` task: when a kept tree was last changed, for the daemon to compare with what it was
// when it was kept. Nothing in it is changed by this, so its directories must be readable.
//
// One ItemRecord, with these fields:
//   files        entries of every kind below the directory; 0 for a file
//   bytes_total  bytes on disk, with the top; a file with several names counts once
//   name         the newest ctime in the tree, the top included: "SECONDS.NANOSECONDS" since 1970,
//                the latter with nine digits
// Whoever writes to a file, changes a mode, makes or removes a name, or makes a hard link, in the
// tree or to a file of it, sets a new ctime in it.

struct TreeState {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
  std::int64_t ctime = 0;  // nanoseconds since 1970
};

// Looks at `fd` (borrowed), a directory or a regular file; O_PATH is enough. Fails if a part of it
// cannot be looked at.
Result<TreeState> state_of_tree(int fd);

// Returns a text such as "1700000000.000000001".
std::string ctime_text(std::int64_t ctime);

// Compares k_worker_directory_fd, at low priority. The phase is done, or failed with the cause.
// Needs the rights of the tree's owner. Returns the exit code.
int run_compare();

}  // namespace nodestage
