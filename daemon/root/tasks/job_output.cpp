#include "daemon/root/tasks/job_output.hpp"

#include "common/text/human.hpp"
#include "daemon/root/basis/log.hpp"

namespace nodestage {
namespace {

// All of it fits where a worker finds a request (k_max_request_bytes).
constexpr std::size_t k_most_bytes = 12 * 1024;
constexpr std::size_t k_line_width = 1200;

std::string text_of(const JobRecord& record, const std::vector<std::string>& lines) {
  const std::string prefix = "nodestage: " + printable(record.begin.node) + ": ";
  std::string text;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string line = prefix + shortened(lines[i], k_line_width) + "\n";
    if (text.size() + line.size() > k_most_bytes)
      return text + prefix + "(and " + human_count(lines.size() - i) + " more: nodestage report " +
             std::to_string(record.begin.job) + ")\n";
    text += line;
  }
  return text;
}

// A job may have no output file; only its worker finds out.
bool is_device(const std::string& path) { return path.starts_with("/dev/"); }

// The script runs on the first node, and another node can end before it does.
bool may_script_run(const JobRecord& record) {
  return record.begin.node_count > 1 && !is_on_first_node(record) && !record.outcome_known;
}

}  // namespace

// Without a batch script, a file with the name that sbatch would give it is some other job's. A
// later run of the job writes to the file of the earlier one.
bool JobOutput::can_take_lines(const JobRecord& record) const {
  if (!record.facts.batch || may_script_run(record)) return false;
  const JobRecord* live = table_.find_live(record.begin.job);
  return live == nullptr || live->key() == record.key();
}

void JobOutput::append(const JobRecord& record, const std::vector<std::string>& lines,
                       const std::function<void()>& on_done) const {
  const ReportTo to = config_.stageout.report;
  if (lines.empty() || to == ReportTo::none || is_device(record.begin.stdout_path))
    return on_done();
  if (to == ReportTo::output && !can_take_lines(record)) return on_done();
  WorkerStart start = workers_.order(record, WorkerTask::append);
  std::get<AppendOrder>(start.order).lines_to =
      to == ReportTo::file ? LinesTo::file : LinesTo::output;
  start.request = text_of(record, lines);
  notices_.write(std::move(start), about(record, "notice"),
                 [on_done](Notices::Written) { on_done(); });
}

}  // namespace nodestage
