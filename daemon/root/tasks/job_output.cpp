#include "daemon/root/tasks/job_output.hpp"

#include <string_view>

#include "common/text/human.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::seconds k_run_limit{60};

// A notice says everything, and lines only what is new.
bool is_replaced_by(const WorkerOrder& old, const WorkerOrder& next) {
  const auto* one = std::get_if<NoticeOrder>(&old);
  const auto* other = std::get_if<NoticeOrder>(&next);
  return one != nullptr && other != nullptr && one->job == other->job &&
         one->restart == other->restart;
}

std::string name_of(const WorkerOrder& order) {
  return std::holds_alternative<NoticeOrder>(order)
             ? "the user's notice"
             : "what the job's output should say of its results";
}

}  // namespace

void Notices::write(WorkerStart start, Subject subject, OnWritten on_written) {
  const std::uint32_t uid = head_of(start.order).uid;
  std::deque<Notice>& waiting = waiting_[uid];
  std::vector<OnWritten> replaced;
  for (const Notice& notice : waiting)
    if (is_replaced_by(notice.start.order, start.order)) replaced.push_back(notice.on_written);
  std::erase_if(waiting, [&start](const Notice& notice) {
    return is_replaced_by(notice.start.order, start.order);
  });
  waiting.push_back({std::move(start), std::move(subject), std::move(on_written)});
  start_next(uid);
  for (const OnWritten& old : replaced) old(Written::no);
}

void Notices::start_next(std::uint32_t uid) {
  while (at_work_.count(uid) == 0 && waiting_.count(uid) > 0) {
    std::deque<Notice>& waiting = waiting_[uid];
    Notice notice = std::move(waiting.front());
    waiting.pop_front();
    if (waiting.empty()) waiting_.erase(uid);
    // Each has its own name: an earlier one may be stuck in the kernel.
    const std::string job = std::to_string(head_of(notice.start.order).job);
    notice.start.cgroup = "notice-" + job + "." + std::to_string(next_++);
    if (const auto id = start(notice); id) {
      at_work_.insert(uid);
    } else {
      log::error(notice.subject, "{} cannot be written: {}", name_of(notice.start.order),
                 id.error().what);
      notice.on_written(Written::no);
    }
  }
}

Result<Workers::Id> Notices::start(const Notice& notice) {
  const Workers::Limits limits{.start = std::chrono::seconds(config_.staging.groups_wait_s),
                               .run = k_run_limit,
                               .kill = std::chrono::seconds(config_.worker.kill_wait_s)};
  const auto on_end = [this, uid = head_of(notice.start.order).uid,
                       name = name_of(notice.start.order), subject = notice.subject,
                       on_written = notice.on_written](const WorkerEnd& end) {
    at_work_.erase(uid);
    const bool written = end.kind == WorkerEnd::Kind::done;
    if (!written) log::warn(subject, "{} was not written: its process {}", name, end.text);
    on_written(written ? Written::yes : Written::no);
    start_next(uid);
  };
  return workers_.start(notice.start, {1, config_.worker.memory_bytes, config_.worker.pids}, limits,
                        notice.subject, on_end);
}

namespace {

// All of it fits where a worker finds a request (k_max_request_bytes).
constexpr std::size_t k_most_bytes = 12 * 1024;
constexpr std::size_t k_line_width = 1200;

bool is_later_component(const JobRecord& record) {
  return record.begin.het_job != k_no_number && record.begin.het_job != record.begin.job;
}

std::string text_of(const JobRecord& record, const std::vector<std::string>& lines) {
  const Begin& begin = record.begin;
  const std::string component =
      is_later_component(record) ? component_mark(begin.het_job, begin.job) : "";
  const std::string prefix = "nodestage: " + printable(begin.node) + component + ": ";
  std::string text;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string line = prefix + shortened(lines[i], k_line_width) + "\n";
    if (text.size() + line.size() > k_most_bytes)
      return text + prefix + "(and " + human_count(lines.size() - i) + " more: nodestage report " +
             std::to_string(begin.job) + ")\n";
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

// A later run of the job writes to the file of the earlier one.
bool JobOutput::has_later_run(const JobRecord& record) const {
  const JobRecord* live = table_.find_live(record.begin.job);
  return live != nullptr && live->key() != record.key();
}

// Without a batch script, a file with the name that sbatch would give it is some other job's.
bool JobOutput::can_take_lines(const JobRecord& record) const {
  if (has_later_run(record)) return false;
  return is_later_component(record) || (record.facts.batch && !may_script_run(record));
}

void JobOutput::append_to_first(std::uint32_t first_job, const WorkerStart& start,
                                const Subject& subject,
                                const std::function<void()>& on_done) const {
  const auto take = [this, first_job, start, subject, on_done](std::string_view output) {
    const BatchScript script = batch_script_of(first_job, output);
    WorkerStart to_first = start;
    auto& order = std::get<AppendOrder>(to_first.order);
    if (script == BatchScript::none) return on_done();
    order.lines_to = script == BatchScript::over ? LinesTo::output : LinesTo::file;
    order.output_job = first_job;
    order.job_name = name_of_job(first_job, output);
    notices_.write(std::move(to_first), subject, [on_done](Notices::Written) { on_done(); });
  };
  questions_.ask(std::to_string(first_job), take);
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
  const Subject subject = about(record, "notice");
  if (to == ReportTo::output && is_later_component(record))
    return append_to_first(record.begin.het_job, start, subject, on_done);
  notices_.write(std::move(start), subject, [on_done](Notices::Written) { on_done(); });
}

}  // namespace nodestage
