#include "cli/status/status_end.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>

#include "common/os/file.hpp"
#include "common/talk/summary.hpp"
#include "common/text/human.hpp"
#include "common/wire/job_state.hpp"

namespace nodestage {
namespace {

constexpr off_t k_most_bytes = off_t{256} << 10;  // the results are at the end
constexpr std::size_t k_most_lines = 40;
constexpr std::string_view k_completing = "COMPLETING";

// What a line says of the results on its node.
enum class Results { nothing, kept, lost, delivered };

Results results_in(std::string_view line) {
  line.remove_prefix(std::min(line.find(": "), line.size()));
  const auto says = [line](std::string_view what) {
    return line.starts_with(": ") && line.substr(2).starts_with(what);
  };
  if (says(k_results_kept)) return Results::kept;
  for (const auto what : {k_results_lost_with_site, k_results_lost, k_kept_removed, k_kept_taken})
    if (says(what)) return Results::lost;
  return says(k_kept_delivered) || says(k_kept_recovered) ? Results::delivered : Results::nothing;
}

std::string node_in(const std::string& line) { return line.substr(0, line.find(": ")); }

// Whether a node says nothing better of its results in the end.
bool has_undelivered(const std::vector<std::string>& lines) {
  std::map<std::string, Results> last;
  for (const std::string& line : lines) {
    const Results results = results_in(line);
    if (results != Results::nothing) last[node_in(line)] = results;
  }
  return std::any_of(last.begin(), last.end(),
                     [](const auto& of_node) { return of_node.second != Results::delivered; });
}

void drop_outdated(std::vector<std::string>& lines) {
  std::set<std::string> ended;  // nodes that keep nothing any more
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    const Results results = results_in(*line);
    if (results == Results::kept && ended.contains(node_in(*line))) line->clear();
    if (results == Results::delivered || results == Results::lost) ended.insert(node_in(*line));
  }
  std::erase(lines, "");
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
  drop_outdated(lines);
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
    return !may_be_well || has_undelivered(report.end->lines);
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
