// The task `push`: delivers outputs while their job runs.
#pragma once

#include <vector>

#include "common/request/request.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/worker/deliver/delivered_list.hpp"
#include "daemon/worker/deliver/output_report.hpp"
#include "daemon/worker/out/deliver_output.hpp"
#include "daemon/worker/tree/settled_file.hpp"

namespace nodestage {

// Returns whether the order asks for item `index` of --stage-out: all, by its number, or by its
// source as a user types it ("results/", "$SLURM_TMPDIR/results", a path below the job directory).
bool is_selected(const PushOrder& order, const OutputItem& item, std::size_t index);

// Delivers what is selected and can be delivered early; the rest ends as skipped. Takes one report
// for each output. begin() of the list was called.
void push_outputs(const PushOrder& order, const StageRequest& request, const JobResults& job,
                  DeliveredList& list, const SettleRules& rules,
                  std::vector<OutputReport>& reports);

}  // namespace nodestage
