// The `append` task: appends lines about a job's results to its standard output file.
#pragma once

#include <string>
#include <string_view>

#include "common/os/fd.hpp"
#include "common/result.hpp"
#include "common/wire/worker_order.hpp"

namespace nodestage {

// Returns the job's standard output file: order.stdout_path with the patterns that sbatch expands
// in it, or sbatch's default. Empty if a pattern's value is not known on this node. A job that is
// not sbatch's has no such file.
std::string job_output_path(const AppendOrder& order);

// Returns "nodestage-JOBID.log", to which LinesTo::file appends beside the job's output.
std::string lines_file_name(const AppendOrder& order);

// Opens what order.lines_to names; only LinesTo::file makes it. Needs the rights of the job's user.
// Refuses anything but a regular file of that user with one name, since other users may be able to
// write to the directory.
Result<Fd> open_job_output(const AppendOrder& order);

// Appends `lines`, each of which ends in '\n'. A last line of the file that lacks its '\n' gets
// one. Other nodes may append to the same file at the same time. Without a file, the lines are
// dropped. A fault is logged. Returns the exit code.
int run_append(const Result<Fd>& output, std::string_view lines);

}  // namespace nodestage
