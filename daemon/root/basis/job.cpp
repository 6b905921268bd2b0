#include "daemon/root/basis/job.hpp"

#include <sys/wait.h>

namespace nodestage {

JobOutcome outcome_of(const JobRecord& record) {
  const auto outcome_by = [](std::uint32_t status) {
    return status == 0 ? JobOutcome::success : JobOutcome::failure;
  };
  if (record.exit_code != 0) return JobOutcome::failure;
  if (record.batch_status) return outcome_by(*record.batch_status);
  if (record.facts.batch)
    return record.first_status ? outcome_by(*record.first_status) : JobOutcome::unknown;
  const auto status = record.last_status ? record.last_status : record.first_status;
  if (!status) return JobOutcome::unknown;
  // The batch script on the first node may have succeeded after a step that failed.
  const bool another_counts =
      !record.outcome_known && record.begin.node_count > 1 && record.begin.node_index != 0;
  return *status != 0 && another_counts && WIFEXITED(*status) ? JobOutcome::unknown
                                                              : outcome_by(*status);
}

}  // namespace nodestage
