// What a job's output says about its staging, from what the worker reported. Every text is bounded
// and printable.
#pragma once

#include <string>
#include <vector>

#include "common/protocol.hpp"
#include "common/status_file.hpp"

namespace nodestage {

// One line per item: what, where, files, bytes, seconds, and its note.
std::vector<std::string> summary_lines(const WorkerStatus& status);

// The same of a stage-out.
std::vector<std::string> delivery_lines(const WorkerStatus& status);

// The sums over the items that the job waits for, or over all.
enum class Counted { without_async, all };
Progress progress_of(const WorkerStatus& status, Counted counted = Counted::without_async);

}  // namespace nodestage
