// The `notice` task: informs a user by a file of what became of a job's results.
#pragma once

#include <string>
#include <string_view>

#include "common/wire/worker_order.hpp"

namespace nodestage {

// Returns the directory of the job's stdout; the work directory if that path is empty, is a
// device's, or has a % pattern before its last component.
std::string notice_directory(const std::string& stdout_path, const std::string& work_dir);

// Returns "nodestage-JOBID.txt", with the restart count of a later run, and with the node's name if
// the job has several nodes, each of which may have something to report.
std::string notice_name(const NoticeOrder& order);

// Writes `text` there, atomically, with mode 0600; if that fails, into the work directory. Logs a
// fault. Needs the rights of the job's user. Returns the exit code.
int run_notice(const NoticeOrder& order, std::string_view text);

}  // namespace nodestage
