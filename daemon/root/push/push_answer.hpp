// What a push has done, as its callers, its user and the log are told. Pure functions, which Pushes
// calls. Texts are printable.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/wire/protocol.hpp"
#include "common/wire/status_file.hpp"
#include "daemon/root/workers/workers.hpp"

namespace nodestage {

enum class PushResult { done, unsettled, failed };

// `end`: how its worker ended, where that did not report a phase.
PushResult result_of(const WorkerStatus& status);

// The answer to a caller that asked for `names`; none: all outputs.
Message answer_to(const std::vector<std::string>& names, const WorkerStatus& status,
                  const WorkerEnd& end);

// Why it failed: the worker's words, or how it ended.
std::string cause_of_failure(const WorkerStatus& status, const WorkerEnd& end);

// Replaces those items of `shown` that the push was about, for `nodestage status`.
void show_push(const WorkerStatus& status, std::vector<ItemRecord>& shown);

}  // namespace nodestage
