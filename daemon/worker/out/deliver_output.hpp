// The delivery of one --stage-out item.
#pragma once

#include "common/request/request.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/worker/out/output_report.hpp"

namespace nodestage {

// Whether `when=` says that the item is not wanted.
bool is_excluded(When when, JobOutcome outcome);

// Finds, places and copies or packs; the report ends as done, failed or skipped. directory_fd: the
// job directory, borrowed. Needs the rights of the job's user and no others.
void deliver_output(const OutputItem& item, const WorkerOrder& order, int directory_fd,
                    OutputReport& report);

}  // namespace nodestage
