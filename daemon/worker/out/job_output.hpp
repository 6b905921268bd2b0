// The `append` task: appends lines about a job's results to its standard output file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/os/file.hpp"
#include "common/request/request.hpp"
#include "common/result.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/worker/out/staged_data.hpp"
#include "daemon/worker/tree/job_tree.hpp"

namespace nodestage {

// The `notice` task: informs a user by a file of what became of a job's results.

// Returns the directory of the job's stdout; the work directory if that path is empty, is a
// device's, or has a % pattern before its last component.
std::string notice_directory(const std::string& stdout_path, const std::string& work_dir);

// Returns "nodestage-JOBID.txt", with the restart count of a later run, and with the node's name if
// the job has several nodes, each of which may have something to report.
std::string notice_name(const NoticeOrder& order);

// Writes `text` there, atomically, with mode 0600; if something else has the name, to the name with
// the node; if that fails, into the work directory. Logs a fault. Needs the rights of the job's
// user. Returns the exit code.
int run_notice(const NoticeOrder& order, std::string_view text);

// The `measure` task: drops from a held tree what was staged and is no result, and measures how
// much of the disk the rest takes.
struct TreeSize {
  std::uint64_t bytes = 0;   // on disk; a file with several hard links counts once
  std::uint64_t inodes = 0;  // entries of every kind; each name of a file counts
};

// Measures a tree but for what cannot be read. Borrows dir_fd.
Result<TreeSize> measure_tree(int dir_fd);

// Removes the files that were staged and are unchanged, but for those that an output names, or may
// lead to by a link, and the directories that this leaves empty. Returns how many bytes they had.
// What cannot be removed stays. A fault, and nothing is removed, if it is not known what the
// outputs name.
Result<std::uint64_t> drop_staged(const StageRequest& request, const JobTree& tree,
                                  const StagedData& staged);

// Does that and measures k_worker_directory_fd. Reports one ItemRecord with bytes_total and files
// (the inodes), and the phase done or failed. Needs the rights of the tree's owner. Returns the
// exit code.
int run_measure(const MeasureOrder& order, const StageRequest& request);

// Returns the job's standard output file: order.stdout_path with the patterns that sbatch expands
// in it, or sbatch's default. Empty if a pattern's value is not known on this node. A job that is
// not sbatch's has no such file.
std::string job_output_path(const AppendOrder& order);

// Opens what order.lines_to names; only LinesTo::file makes it. Without the output of a first
// component, LinesTo::file is meant. Needs the rights of the job's user.
// Refuses anything but a regular file of that user with one name, since other users may be able to
// write to the directory.
Result<Fd> open_job_output(const AppendOrder& order);

// Appends `lines`, each of which ends in '\n'. A last line of the file that lacks its '\n' gets
// one. Other nodes may append to the same file at the same time. Without a file, the lines are
// dropped. A fault is logged. Returns the exit code.
int run_append(const Result<Fd>& output, std::string_view lines, std::uint32_t nodes);

}  // namespace nodestage
