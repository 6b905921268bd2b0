// Delivers one --stage-out item.
#pragma once

#include "common/request/request.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/worker/out/output_report.hpp"

namespace nodestage {

// Whether `when=` excludes the item.
bool is_excluded(When when, JobOutcome outcome);

// Finds the sources and copies or packs them to the target. The report ends as done, failed, or
// skipped. directory_fd: the job directory, borrowed. Needs the rights of the job's user.
void deliver_output(const OutputItem& item, const WorkerOrder& order, int directory_fd,
                    OutputReport& report);

}  // namespace nodestage
