// StageReport: writes the status file while the worker stages.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "common/wire/status_file.hpp"
#include "daemon/worker/stage/dataset.hpp"

namespace nodestage {

// One thread. A status file that cannot be written is logged and does not stop the staging; the
// daemon sees no progress then.
class StageReport {
 public:
  // Call it before the phase `ready` is written.
  void set_environment(const std::vector<std::string>& environment);

  // Writes the records that have changed, then the header.
  void write(WorkerPhase phase, const std::deque<Dataset>& datasets);

  // Writes the phase `failed`; returns 1, the exit code.
  int fail(const std::string& cause, const std::deque<Dataset>& datasets);

 private:
  StatusHeader header_{k_status_magic, 0, 0, 0, {}, {}};
  std::vector<ItemRecord> written_;
};

}  // namespace nodestage
