// StageReport: writes the status file while the worker stages.
#pragma once

#include <string>
#include <vector>

#include "common/request/request.hpp"
#include "common/wire/status_file.hpp"
#include "daemon/worker/stage/staged_item.hpp"

namespace nodestage {

// One thread. A status file that cannot be written is logged and does not stop the staging; the
// daemon sees no progress then.
class StageReport {
 public:
  // Call it before the phase `ready` is written.
  void set_environment(const std::vector<std::string>& environment);

  // The same: what newest= has chosen, and how many outputs there are, with their intervals.
  void set_chosen(const StagedItems& items);
  void set_outputs(const std::vector<OutputItem>& outputs);

  // Writes the records that have changed, then the header.
  void write(WorkerPhase phase, const StagedItems& items);

  // Names the item whose failure is the cause of fail().
  void blame(std::size_t item) { header_.failed_item = static_cast<std::uint32_t>(item) + 1; }

  // Writes the phase `failed`; returns 1, the exit code.
  int fail(const std::string& cause, const StagedItems& items);

 private:
  StatusHeader header_{.magic = k_status_magic};
  std::vector<ItemRecord> written_;
};

}  // namespace nodestage
