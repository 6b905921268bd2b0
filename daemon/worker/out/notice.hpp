// The `notice` task: tells a user by a file what became of a job's results.
#pragma once

#include <string>
#include <string_view>

#include "common/wire/worker_order.hpp"

namespace nodestage {

// The directory of the job's stdout; the work directory when that is not known: the path is empty,
// holds a % pattern before its last part, or is a device's.
std::string notice_directory(const std::string& stdout_path, const std::string& work_dir);

// "nodestage-JOBID.txt"; with the restart count of a later run, and with the node's name when the
// job has several, each of which may have something to tell.
std::string notice_name(const WorkerOrder& order);

// Writes `text` there, atomically, mode 0600, or else into the work directory; a fault is logged.
// Needs the rights of the job's user. The exit code.
int run_notice(const WorkerOrder& order, std::string_view text);

}  // namespace nodestage
