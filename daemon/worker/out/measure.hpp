// The `measure` task: drops from a held tree what was staged and is no result, and measures how
// much of the disk the rest takes.
#pragma once

#include <cstdint>

#include "common/request/request.hpp"
#include "common/result.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/worker/out/staged_data.hpp"
#include "daemon/worker/tree/job_tree.hpp"

namespace nodestage {

struct TreeSize {
  std::uint64_t bytes = 0;   // on disk; a file with several hard links counts once
  std::uint64_t inodes = 0;  // entries of every kind; each name of a file counts
};

// Measures a tree but for what cannot be read. Borrows dir_fd.
Result<TreeSize> measure_tree(int dir_fd);

// Removes the files that were staged and are unchanged, but for those that an output names, or may
// lead to by a link, and the directories that this leaves empty. Returns how many bytes they had.
// What cannot be removed stays. A fault, and nothing is removed, if it is not known what the
// outputs name.
Result<std::uint64_t> drop_staged(const StageRequest& request, const JobTree& tree,
                                  const StagedData& staged);

// Does that and measures k_worker_directory_fd. Reports one ItemRecord with bytes_total and files
// (the inodes), and the phase done or failed. Needs the rights of the tree's owner. Returns the
// exit code.
int run_measure(const MeasureOrder& order, const StageRequest& request);

}  // namespace nodestage
