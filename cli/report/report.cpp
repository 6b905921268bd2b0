#include "cli/report/report.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "cli/base/conversation.hpp"
#include "cli/base/node_jobs.hpp"
#include "cli/base/slurm_job.hpp"
#include "cli/base/this_node.hpp"
#include "cli/report/report_nodes.hpp"
#include "cli/report/report_page.hpp"
#include "cli/report/report_table.hpp"
#include "common/os/file.hpp"
#include "common/text/human.hpp"

namespace nodestage {
namespace {

using Reports = std::vector<NodeReport>;

bool is_before(const NodeReport& a, const NodeReport& b) {
  return std::tie(a.restart, a.node_index, a.node) < std::tie(b.restart, b.node_index, b.node);
}

class ReportCommand {
 public:
  ReportCommand(const ReportArguments& arguments, const JobId& id)
      : arguments_(arguments), id_(id) {
    if (id.restart != k_no_number) job_ += "." + std::to_string(id.restart);
  }

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
    auto nodes = find_nodes_of(id_.job);
    if (!arguments_.nodes.empty()) {
      if (!nodes) nodes.emplace();
      nodes->list = arguments_.nodes;
      nodes->count = 0;
    }
    if (!nodes) {
      if (!reports_.empty()) return {};  // this node's reports; show() reports what is missing
      return fault("Slurm does not report on which nodes job " + std::to_string(id_.job) + " ran",
                   "Name them: nodestage report " + job_ +
                       " --node=NODE[,NODE]. On a node itself: nodestage report " + job_ +
                       " --here");
    }
    if (!nodes->is_running)
      std::fprintf(stderr, "nodestage: asking %s with a job of one short task on each (srun)\n",
                   printable(nodes->list).c_str());
    auto reports = ask_nodes(*nodes, job_, arguments_.socket);
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
  std::string job_ = std::to_string(id_.job);  // "12" or "12.1"
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
