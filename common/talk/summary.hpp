// What a job's output says about its staging, from what the worker reported. Every text is bounded
// and printable.
#pragma once

#include <string>
#include <vector>

#include "common/wire/protocol.hpp"
#include "common/wire/status_file.hpp"
#include "common/wire/worker_order.hpp"

namespace nodestage {

// Of a cause and, in a second line, what to do: "cause. what to do", printable.
std::string in_one_line(const std::string& text);

// "data.tar.gz (tar.gz)", of a path and what it is, where that is known.
std::string item_title(const std::string& source, const std::string& what);

// What `nodestage status` is told of the items of a worker with this task.
std::vector<StatusItem> status_items(const WorkerStatus& status, WorkerTask task);

// One line per item: what, where, files, bytes, seconds, and its note.
std::vector<std::string> summary_lines(const WorkerStatus& status);

// The same of a stage-out.
std::vector<std::string> delivery_lines(const WorkerStatus& status);

// The sums over the items that the job waits for, or over all.
enum class Counted { without_async, all };
Progress progress_of(const WorkerStatus& status, Counted counted = Counted::without_async);

}  // namespace nodestage
