// Where a worker's task may write.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "common/os/fd.hpp"
#include "common/request/request.hpp"
#include "common/wire/worker_order.hpp"

namespace nodestage {

// The directories below which the task writes, for its sandbox; links are followed on the way, as
// the task will. A target that is not there yet: the last directory on the way to it that is.
// Nothing: a file system does not answer within `patience` (a thread may hang in it then, for as
// long as the process lives). job_fd: the job directory, borrowed.
std::optional<std::vector<Fd>> write_places(const WorkerOrder& order, const StageRequest& request,
                                            int job_fd, std::chrono::milliseconds patience);

// The last directory on the way to `path` (absolute) that is there: of "/a/b/c" perhaps "/a".
Fd nearest_directory(const std::string& path);

}  // namespace nodestage
