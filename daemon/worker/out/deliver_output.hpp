// Delivers one --stage-out item.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/request/request.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/worker/deliver/delivered_list.hpp"
#include "daemon/worker/deliver/output_links.hpp"
#include "daemon/worker/deliver/output_report.hpp"
#include "daemon/worker/out/output_target.hpp"
#include "daemon/worker/out/staged_data.hpp"
#include "daemon/worker/tree/file_data.hpp"
#include "daemon/worker/tree/job_tree.hpp"

namespace nodestage {

// Returns whether `when=` excludes the item.
bool is_excluded(When when, JobOutcome outcome);

// A job's directory, with what of it is no result. Borrows everything.
struct JobResults {
  const JobTree& tree;
  const StagedData& staged;

  // Finds what of the item's source is a result.
  [[nodiscard]] Result<OutputSource> find(const OutputItem& item) const;
  // Returns what is left out of the copies of what find() has found.
  [[nodiscard]] LeavesOut leaves_out(const OutputSource& source) const;
  // Returns its links. Of what was staged and is unchanged, little is delivered in their place.
  [[nodiscard]] OutputLinks links(const OutputSource& source) const;
};

// What earlier deliveries of the item brought, for the two calls below. Borrows everything.
struct EarlierDelivery {
  DeliveredList* list = nullptr;  // null: nothing
  std::size_t item = 0;           // the item's index
  Pruning* pruning = nullptr;     // is told what the source has; null: without `prune`
};

// The outputs with the key `prune`. Results that are held are only added to in their targets.
class PrunedOutputs {
 public:
  // Borrows the request and the list.
  PrunedOutputs(const DeliveryOrder& order, const StageRequest& request, DeliveredList& list);
  // Null for an output without the key.
  Pruning* find(std::size_t item);
  // Removes once all outputs are in their targets, unless one has failed. What another has there
  // stays, and what has the size of a file that another has not stored yet: it may be that file.
  void run(const JobResults& job, std::vector<OutputReport>& reports);
  // Removes nothing, and reports how many were removed before.
  void leave_all(std::vector<OutputReport>& reports);

 private:
  const StageRequest& request_;
  DeliveredList& list_;
  std::map<std::size_t, Pruning> outputs_;
};

// Finds the sources and copies or packs them to the target. What is changed meanwhile is read
// rules.reads times. The report ends as done, failed, or skipped. Needs the rights of the job's
// user.
void deliver_output(const OutputItem& item, const DeliveryOrder& order, const JobResults& job,
                    const EarlierDelivery& earlier, const SettleRules& rules, OutputReport& report);

// Whether all that will be copied is looked at first, for somebody who sees the progress.
enum class Total { unknown, counted };

// Does the same while the job runs: copies only what has changed since the earlier deliveries and
// is whole, and continues their list (not null). Looks at files that are being written rules.looks
// times, and names them in the report. SIGIO must be ignored.
void push_output(const OutputItem& item, const DeliveryOrder& order, const JobResults& job,
                 const EarlierDelivery& earlier, const SettleRules& rules, Total total,
                 OutputReport& report);

// Whether a file is in the target already: it is the source `paths[source]` (`path` is "") or
// below it.
using IsThere =
    std::function<bool(std::size_t source, const std::string& path, const struct stat& info)>;

// Returns the bytes of the files that are to be copied. What links lead to is not among them, nor
// what cannot be walked. Reads all names of directories.
std::uint64_t bytes_of(const OutputSource& source, const JobResults& job,
                       const LeavesOut& leaves_out, const IsThere& is_there = {});

}  // namespace nodestage
