// Texts on what a push has done, for its callers, its user and the log. Pure functions, which
// Pushes calls. Texts are printable.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/wire/protocol.hpp"
#include "common/wire/status_file.hpp"
#include "daemon/root/workers/workers.hpp"

namespace nodestage {

enum class PushResult { done, unsettled, failed };

PushResult result_of(const WorkerStatus& status);

// Returns the answer to a caller that asked for `names`; none: all outputs. `end` serves where the
// status does not say how the push ended.
Message answer_to(const std::vector<std::string>& names, const WorkerStatus& status,
                  const WorkerEnd& end);

// Returns why it failed: the worker's words, or how it ended.
std::string cause_of_failure(const WorkerStatus& status, const WorkerEnd& end);

// The outputs whose last delivery has failed: bit i of `items` for output i.
struct PushFailures {
  std::uint64_t items = 0;
  bool is_unknown = false;  // a push ended before it could say of which outputs

  [[nodiscard]] bool is_empty() const { return items == 0 && !is_unknown; }
  bool operator==(const PushFailures&) const = default;
};
PushFailures failures_after(PushFailures before, const WorkerStatus& status);

// Replaces those items of `shown` that the push was about, for `nodestage status`.
void show_push(const WorkerStatus& status, std::vector<ItemRecord>& shown);

}  // namespace nodestage
