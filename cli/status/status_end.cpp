#include "cli/status/status_end.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "common/os/file.hpp"
#include "common/talk/summary.hpp"
#include "common/text/human.hpp"
#include "common/wire/job_state.hpp"

namespace nodestage {
namespace {

constexpr off_t k_most_bytes = off_t{256} << 10;  // the results are at the end
constexpr std::size_t k_most_lines = 40;
constexpr std::string_view k_completing = "COMPLETING";

bool says_undelivered(const std::string& line) {
  const auto has = [&line](std::string_view what) {
    return line.find(": " + std::string(what)) != std::string::npos;
  };
  return has(k_results_kept) || has(k_results_lost_with_site) || has(k_results_lost);
}

std::string sources_of(const JobEnd& end, const std::string& job) {
  const std::string report = "`nodestage report " + job + "` shows what its nodes recorded";
  if (end.output.empty())
    return "its output is the terminal of srun or salloc, or a file whose name Slurm does not "
           "have; " +
           report;
  const std::string path = printable(end.output);
  if (!end.is_read) return "its output, " + path + ", cannot be read on this host; " + report;
  if (!end.nodes.empty()) return "nodestage writes what becomes of the results to " + path;
  if (end.lines.empty()) return "nodestage wrote nothing to its output, " + path;
  return "these are nodestage's lines in " + path + "; " + report;
}

}  // namespace

// The user chose the path, and root can be the one who looks: a device or a FIFO is not opened, and
// a lease of the user's (F_SETLEASE) is not waited for.
Result<std::string> read_output_end(const std::string& path, std::uint32_t owner) {
  TRY_ASSIGN(const Fd found, open_at(AT_FDCWD, path, O_PATH));
  struct stat info {};
  if (::fstat(found.get(), &info) != 0) return system_error(path);
  if (!S_ISREG(info.st_mode) || info.st_uid != owner)
    return Error{EINVAL, path + " is not a regular file of the job's user"};
  TRY_ASSIGN(const Fd file, open_at(AT_FDCWD, "/proc/self/fd/" + std::to_string(found.get()),
                                    O_RDONLY | O_NONBLOCK));
  if (::lseek(file.get(), std::max<off_t>(info.st_size - k_most_bytes, 0), SEEK_SET) < 0)
    return system_error(path);
  return read_all(file.get(), 2 * static_cast<std::size_t>(k_most_bytes));
}

std::vector<std::string> lines_of_nodestage(std::string_view output) {
  std::vector<std::string> lines;
  while (!output.empty()) {
    std::string_view line = output.substr(0, output.find('\n'));
    output.remove_prefix(std::min(line.size() + 1, output.size()));
    if (!line.starts_with(k_line_start)) continue;
    line.remove_prefix(k_line_start.size());
    lines.push_back(printable(line));
  }
  if (lines.size() > k_most_lines)
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(k_most_lines));
  return lines;
}

JobEnd end_of_job(const SlurmJob& job, const std::string& wanted) {
  JobEnd end;
  end.is_completing = is_completing(job);
  if (job.state == k_completing) end.nodes = job.nodes;
  end.output = output_path(wanted);
  if (end.output.empty()) return end;
  const auto text = read_output_end(end.output, job.uid);
  end.is_read = static_cast<bool>(text);
  if (text) end.lines = lines_of_nodestage(*text);
  return end;
}

bool has_failed(const StatusReport& report) {
  if (report.end) {
    const bool may_be_well = report.slurm_state == "COMPLETED" || report.end->is_completing;
    const auto& lines = report.end->lines;
    return !may_be_well || std::any_of(lines.begin(), lines.end(), says_undelivered);
  }
  return std::any_of(report.jobs.begin(), report.jobs.end(), [](const JobStatus& status) {
    return status.row.state == to_text(JobState::failed) ||
           status.row.state == to_text(JobState::held);
  });
}

std::string end_text(const JobEnd& end, const std::string& job, const std::string& state) {
  std::string text = "job " + job;
  if (!end.is_completing) {
    text += " is over (" + printable(state) + ")\n";
  } else if (state != k_completing) {
    text += " has ended and is " + printable(state) + ": Slurm copies out its burst buffers\n";
  } else {
    text += " has ended and is " + printable(state) + " on " + printable(end.nodes) +
            ": if it has results, they are delivered there now\n";
  }
  for (const std::string& line : end.lines) text += "  " + line + "\n";
  return text + sources_of(end, job) + "\n";
}

}  // namespace nodestage
