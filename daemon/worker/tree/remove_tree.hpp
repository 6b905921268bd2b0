// Removal of a directory tree, by the tree's owner or, for files of foreign owners, by root with
// CAP_DAC_OVERRIDE, CAP_FOWNER and CAP_DAC_READ_SEARCH alone.
#pragma once

#include "common/result.hpp"
#include "common/wire/worker_order.hpp"

namespace nodestage {

// Removes everything below dir_fd; the directory itself stays (mode u+rwx). Never follows a link,
// never crosses a mount point. Goes on past what it cannot remove; the fault names the first such
// thing. What vanishes meanwhile is no fault, so two runs at a time do no harm.
Status remove_tree_contents(int dir_fd);

// The `remove` task: the tree at k_worker_directory_fd, at nice 19 and idle I/O priority. Exit
// code 0: empty; 1: something is left, named on stderr.
int run_remove(const WorkerOrder& order);

}  // namespace nodestage
