#include "cli/report/report.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string_view>
#include <utility>

#include "cli/base/conversation.hpp"
#include "cli/base/verbs.hpp"
#include "cli/process/programs.hpp"
#include "cli/slurm/node_jobs.hpp"
#include "cli/slurm/slurm_job.hpp"
#include "cli/status/status.hpp"
#include "common/build_info.hpp"
#include "common/os/file.hpp"
#include "common/request/job_environment.hpp"
#include "common/text/human.hpp"

namespace nodestage {

std::string to_pieces(const NodeReport& report, const std::string& json) {
  return text_to_pieces(report.node, report.restart, json);
}

std::vector<NodeReport> from_pieces(std::string_view text, const std::vector<std::string>& nodes) {
  std::vector<NodeReport> reports;
  for (const auto& [node, runs] : texts_from_pieces(text, nodes, k_most_runs_of_a_node)) {
    for (const auto& [restart, json] : runs) {
      auto report = decode_report(json);
      if (report && report->node == node && report->restart == restart)
        reports.push_back(std::move(*report));
    }
  }
  return reports;
}

std::vector<std::string> report_words(const std::string& job, const std::string& socket) {
  std::vector<std::string> words = {"nodestage", "report", job, "--pieces"};
  if (socket != k_socket_path) words.push_back("--socket=" + socket);
  return words;
}

std::vector<std::string> step_words(const SlurmJob& slurm_job, const std::string& job,
                                    const std::string& socket) {
  std::vector<std::string> words = {"srun",
                                    "--quiet",
                                    "--mpi=none",
                                    "--kill-on-bad-exit=0",
                                    "--stage-wait=none",
                                    "--nodelist=" + slurm_job.nodes,
                                    "--ntasks-per-node=1",
                                    "--jobid=" + job.substr(0, job.find('.')),
                                    "--overlap"};
  if (slurm_job.node_count != 0) {
    const std::string count = std::to_string(slurm_job.node_count);
    words.insert(words.end(), {"--nodes=" + count, "--ntasks=" + count});
  }
  const auto command = report_words(job, socket);
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

namespace {

constexpr std::chrono::seconds k_report_answers{120};

// With a step of the job. Slurm lets only the job's user create one, not even root.
Result<NodeAnswers> ask_by_step(const SlurmJob& slurm_job, const std::vector<std::string>& names,
                                const std::string& job, const std::string& socket) {
  Program program{step_words(slurm_job, job, socket),
                  environment_outside_of_jobs(),
                  {},
                  most_bytes_of_pieces(names.size())};
  program.environment->push_back(std::string(k_observer_variable) + "=1");
  if (::geteuid() == 0 && slurm_job.uid != 0) {
    TRY_ASSIGN(program.account, account_of(slurm_job.uid));
    program.environment = step_environment();
  }
  const ProgramEnd end = run_program(program, k_report_answers);
  std::fputs(printable(end.errors, Newlines::keep).c_str(), stderr);
  NodeAnswers answers{names, end.output, end.is_cut, {}};
  if (end.code == 0) return answers;
  const char* why = end.is_not_run() ? "srun cannot be run on this host"
                    : end.late       ? "srun took too long"
                                     : "srun failed";
  for (const std::string& name : names) answers.silent[name] = why;
  return answers;
}

}  // namespace

Result<std::vector<NodeReport>> ask_nodes(const SlurmJob& slurm_job, const std::string& job,
                                          const std::string& socket) {
  TRY_ASSIGN(const std::vector<std::string> names, expand_nodes(slurm_job.nodes));
  NodeAnswers answers;
  if (slurm_job.state == k_running) {
    TRY_ASSIGN(answers, ask_by_step(slurm_job, names, job, socket));
  } else {
    answers = ask_by_jobs(names, report_words(job, socket));
  }
  if (answers.is_cut)
    std::fputs("nodestage: the nodes have written too much: the report is not complete\n", stderr);
  auto reports = from_pieces(answers.output, answers.nodes);
  for (const auto& answer : texts_from_pieces(answers.output, answers.nodes, 1))
    answers.silent.erase(answer.first);
  TRY(note_silent(answers));
  return reports;
}

namespace {

using Reports = std::vector<NodeReport>;

bool is_before(const NodeReport& a, const NodeReport& b) {
  return std::tie(a.restart, a.node_index, a.node) < std::tie(b.restart, b.node_index, b.node);
}

class ReportCommand {
 public:
  ReportCommand(const ReportArguments& arguments, const JobId& id)
      : arguments_(arguments), id_(id) {}

  int run() {
    const bool is_only_here = arguments_.is_here || arguments_.is_pieces;
    if (arguments_.nodes.empty()) {
      const Status asked = ask_here();
      if (!asked && is_only_here)
        return daemon_fault("nodestaged does not answer on this host: " + asked.error().text());
    }
    if (!is_only_here && !is_whole()) {
      if (const auto code = ask_others()) return *code;
    }
    if (arguments_.is_pieces) return show_pieces();
    return show();
  }

 private:
  Status ask_here() {
    TRY_ASSIGN(DaemonConnection daemon, DaemonConnection::open(arguments_.socket));
    TRY(daemon.send(ReportQuery{id_.job}, Clock::now() + k_daemon_wait));
    for (;;) {
      TRY_ASSIGN(const Message answer, daemon.receive(Clock::now() + k_daemon_wait));
      if (const auto* refused = std::get_if<Refused>(&answer)) return Error{EPROTO, refused->what};
      const auto* row = std::get_if<ReportRow>(&answer);
      if (row == nullptr) return {};
      TRY_ASSIGN(NodeReport report, decode_report(row->report));
      take(std::move(report));
    }
  }

  void take(NodeReport report) {
    const bool is_meant =
        report.job == id_.job && (id_.restart == k_no_number || id_.restart == report.restart);
    const bool is_known =
        std::any_of(reports_.begin(), reports_.end(), [&report](const NodeReport& known) {
          return known.restart == report.restart && known.node == report.node;
        });
    if (is_meant && !is_known) reports_.push_back(std::move(report));
  }

  // Whether this node knows all nodes of the runs.
  [[nodiscard]] bool is_whole() const {
    return !reports_.empty() && std::all_of(reports_.begin(), reports_.end(),
                                            [](const auto& one) { return one.node_count <= 1; });
  }

  std::optional<int> ask_others() {
    auto job = find_placed_job(id_.job);
    if (!arguments_.nodes.empty()) {
      if (!job) job.emplace();
      job->nodes = arguments_.nodes;
      job->node_count = 0;
    }
    if (!job) {
      if (!reports_.empty()) return {};  // this node's reports; show() reports what is missing
      return fault("Slurm does not report on which nodes job " + std::to_string(id_.job) + " ran",
                   "Name them: nodestage report " + job_ +
                       " --node=NODE[,NODE]. On a node itself: nodestage report " + job_ +
                       " --here");
    }
    if (job->state != k_running)
      std::fprintf(stderr, "nodestage: asking %s with a job of one short task on each (srun)\n",
                   printable(job->nodes).c_str());
    auto reports = ask_nodes(*job, job_, arguments_.socket);
    if (!reports)
      return fault(reports.error().text(),
                   "Busy nodes can be asked later. To ask one node: --node=NODE, or on that node: "
                   "nodestage report " +
                       job_ + " --here");
    for (NodeReport& report : *reports) take(std::move(report));
    return {};
  }

  [[nodiscard]] int show_pieces() const {
    for (const NodeReport& report : reports_)
      std::fputs(to_pieces(report, encode_report(report)).c_str(), stdout);
    std::fputs(end_of_pieces(node_name()).c_str(), stdout);
    return 0;
  }

  int show() {
    if (reports_.empty()) {
      fault("there is no record of a job " + std::to_string(id_.job) + " of yours",
            "Nodes keep records only of jobs that staged something, and only for a time "
            "(records.days in nodestaged.toml).");
      return k_no_such_job;
    }
    std::sort(reports_.begin(), reports_.end(), is_before);
    std::vector<Reports> runs;
    for (const NodeReport& report : reports_) {
      if (runs.empty() || runs.back().front().restart != report.restart) runs.emplace_back();
      runs.back().push_back(report);
    }
    if (arguments_.is_json) print_json();
    for (const Reports& run : runs) {
      if (!arguments_.is_json)
        std::printf("%s%s", &run == &runs.front() ? "" : "\n", report_table(run).c_str());
      add_missing_nodes(run);
    }
    if (arguments_.html.empty()) return 0;
    const Status written = write_page(report_page(runs));
    return written ? 0 : fault(written.error().text(), "Name another FILE: --html=FILE");
  }

  void print_json() const {
    const char* separator = "[\n";
    for (const NodeReport& report : reports_) {
      std::printf("%s%s", separator, report_json(report).dump().c_str());
      separator = ",\n";
    }
    std::printf("\n]\n");
  }

  static void add_missing_nodes(const Reports& run) {
    const NodeReport& first = run.front();
    if (first.node_count <= run.size()) return;
    std::fprintf(stderr, "nodestage: %s: %zu of its %u nodes have reported\n",
                 run_name(first).c_str(), run.size(), first.node_count);
  }

  [[nodiscard]] Status write_page(const std::string& page) const {
    TRY_ASSIGN(const Fd file,
               open_at(AT_FDCWD, arguments_.html, O_WRONLY | O_CREAT | O_TRUNC, 0666));
    const Status written = write_all(file.get(), page);
    return written ? Status()
                   : Status(Error{written.error().code,
                                  arguments_.html + ": " + written.error().text()});
  }

  const ReportArguments& arguments_;
  JobId id_;
  std::string job_ = to_text(id_);  // "12" or "12.1"
  Reports reports_;
};

}  // namespace

int report(const ReportArguments& arguments) {
  const auto id = find_job_id(arguments.job);
  if (id) return ReportCommand(arguments, *id).run();
  if (id.error().code == ENOMSG)
    return wrong_usage(id.error().text(),
                       "JOBID is a number; for a task of an array, JOBID_TASK; of a run that was "
                       "requeued, JOBID.RESTART.");
  fault(id.error().text(),
        "Once Slurm has forgotten a job, nodes know it by the number that its task had as a job of "
        "its own: SLURM_JOB_ID.");
  return id.error().code == ENOENT ? k_no_such_job : k_fault;
}

}  // namespace nodestage
