// StageReport: the staging half's side of the status file.
#pragma once

#include <string>
#include <vector>

#include "common/wire/status_file.hpp"
#include "daemon/worker/stage/staged_item.hpp"

namespace nodestage {

// One thread. A status file that cannot be written is logged and no reason to stop: the daemon then
// sees no progress.
class StageReport {
 public:
  // Before the phase `ready` is written.
  void set_environment(const std::vector<std::string>& environment);

  // Records that have changed, then the header.
  void write(WorkerPhase phase, const StagedItems& items);

  // The one whose failure the cause of fail() tells.
  void blame(std::size_t item) { header_.failed_item = static_cast<std::uint32_t>(item) + 1; }

  // Phase `failed`; returns 1, the exit code.
  int fail(const std::string& cause, const StagedItems& items);

 private:
  StatusHeader header_{k_status_magic, 0, 0, 0, {}, 0, {}};
  std::vector<ItemRecord> written_;
};

}  // namespace nodestage
