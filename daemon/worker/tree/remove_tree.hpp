// Removes a directory tree, as the tree's owner or, for files of foreign owners, as root with only
// CAP_DAC_OVERRIDE, CAP_FOWNER, and CAP_DAC_READ_SEARCH.
#pragma once

#include <functional>
#include <string>

#include "common/result.hpp"
#include "common/wire/worker_order.hpp"

namespace nodestage {

// Removes everything below dir_fd; the directory itself stays (mode u+rwx). Never follows a link,
// never crosses a mount point. Continues after a failure; the fault names the first entry that
// stays. What vanishes meanwhile is not a fault, so two runs at the same time do no harm.
// `must_stop` is asked before each entry; once it says yes, the fault is EINTR.
Status remove_tree_contents(int dir_fd, const std::function<bool()>& must_stop = {});

// Removes an entry of any kind, with all that is in it.
Status remove_entry(int dir_fd, const std::string& name);

// Runs the `remove` task: removes the tree at k_worker_directory_fd, at nice 19 and idle I/O
// priority. Exit code 0: the tree is empty; 1: something is left, and stderr names it.
int run_remove(const RemoveOrder& order);

}  // namespace nodestage
