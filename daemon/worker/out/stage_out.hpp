// The tasks `stage_out`, `push`, and `recover`: deliver what --stage-out requested, to its targets
// or below a directory that is named later.
#pragma once

#include <string>

#include "common/request/request.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/worker/deliver/delivered_list.hpp"
#include "daemon/worker/deliver/output_report.hpp"
#include "daemon/worker/out/deliver_output.hpp"
#include "daemon/worker/tree/file_data.hpp"

namespace nodestage {

// Each runs as the job's user, without capabilities, on the descriptors of
// common/wire/worker_order.hpp. Sets the process's umask to the request's and ignores SIGXFSZ and
// SIGIO. Exit code 0: every item was delivered (also earlier: order.delivered), had nothing to
// deliver, or was not selected (phase done). 1: some were not (phase failed; the cause has two
// lines, what happened and what to do). Writes one ItemRecord for each item of --stage-out, in
// their order.
int run_stage_out(const StageOutOrder& order, const StageRequest& request,
                  const SettleRules& rules = {});
int run_push(const PushOrder& order, const StageRequest& request, const SettleRules& rules = {});
int run_recover(const RecoverOrder& order, const StageRequest& request);

// How users learn that a task has failed: its name, and what they can do in the end.
struct DeliveryWords {
  const char* name;
  std::string last_advice;
};
DeliveryWords words_of(const StageOutOrder& order);
DeliveryWords words_of(const PushOrder& order);
DeliveryWords words_of(const RecoverOrder& order);

// Call it instead if the request cannot be read: phase failed, exit code 1.
int refuse_delivery(const DeliveryWords& words, const Error& error);

// Returns whether the order asks for item `index` of --stage-out: all, by its number, or by its
// source as a user types it ("results/", "$SLURM_TMPDIR/results", a path below the job directory).
bool is_selected(const PushOrder& order, const OutputItem& item, std::size_t index);

}  // namespace nodestage
