// Recovers one --stage-out item of a held tree.
#pragma once

#include <string>
#include <vector>

#include "common/request/request.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/worker/deliver/output_report.hpp"
#include "daemon/worker/tree/job_tree.hpp"

namespace nodestage {

// Copies what SOURCE names to order.recover_to/SOURCE, each match of a glob to its own path there,
// unpacked and whatever TARGET was. Of a source that a link leads out of the tree, it copies the
// link. Skips what `when=` is known to exclude. The report ends as done, failed, or skipped. Needs
// the rights of the job's user.
void recover_output(const OutputItem& item, const WorkerOrder& order, const JobTree& job,
                    OutputReport& report);

// Copies the entries with these names at the top level of the tree to order.recover_to. For a tree
// that contains nothing of what --stage-out names.
void recover_names(const std::vector<std::string>& names, const WorkerOrder& order,
                   const JobTree& job, OutputReport& report);

}  // namespace nodestage
