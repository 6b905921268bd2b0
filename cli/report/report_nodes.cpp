#include "cli/report/report_nodes.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <string_view>
#include <utility>

#include "cli/base/node_jobs.hpp"
#include "cli/base/programs.hpp"
#include "cli/base/slurm_job.hpp"
#include "cli/status/status_nodes.hpp"
#include "common/build_info.hpp"
#include "common/request/job_environment.hpp"
#include "common/text/human.hpp"
#include "common/text/parsing.hpp"

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

namespace {

constexpr std::chrono::seconds k_report_answers{120};

std::optional<JobNodes> nodes_listed_by(const std::vector<std::string>& words, std::uint32_t job) {
  return parse_job_nodes(run_program({words, environment_outside_of_jobs(), {}}).output, job);
}

}  // namespace

std::optional<JobNodes> parse_job_nodes(const std::string& lines, std::uint32_t job) {
  std::optional<JobNodes> found;
  std::istringstream all(lines);
  for (std::string line; std::getline(all, line);) {
    std::istringstream fields(line);
    std::string id;
    std::string state;
    std::string count;
    JobNodes nodes;
    if (!std::getline(fields, id, '|') || !std::getline(fields, state, '|') ||
        !std::getline(fields, count, '|') || !std::getline(fields, nodes.list, '|'))
      continue;
    if (id != std::to_string(job) || nodes.list.empty() ||
        nodes.list.find(' ') != std::string::npos)
      continue;
    nodes.is_running = state == "RUNNING";
    std::uint32_t uid = 0;
    if (nodes.is_running && fields >> uid) nodes.uid = uid;
    nodes.count = parse_number<std::uint32_t>(count).value_or(0);
    found = std::move(nodes);
  }
  return found;
}

std::vector<std::string> report_words(const std::string& job, const std::string& socket) {
  std::vector<std::string> words = {"nodestage", "report", job, "--pieces"};
  if (socket != k_socket_path) words.push_back("--socket=" + socket);
  return words;
}

std::vector<std::string> step_words(const JobNodes& nodes, const std::string& job,
                                    const std::string& socket) {
  std::vector<std::string> words = {"srun",
                                    "--quiet",
                                    "--mpi=none",
                                    "--kill-on-bad-exit=0",
                                    "--stage-wait=none",
                                    "--nodelist=" + nodes.list,
                                    "--ntasks-per-node=1",
                                    "--jobid=" + job.substr(0, job.find('.')),
                                    "--overlap"};
  if (nodes.count != 0) {
    const std::string count = std::to_string(nodes.count);
    words.insert(words.end(), {"--nodes=" + count, "--ntasks=" + count});
  }
  const auto command = report_words(job, socket);
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

std::optional<JobNodes> find_nodes_of(std::uint32_t job) {
  const std::string id = std::to_string(job);
  if (auto nodes = nodes_listed_by(
          {"squeue", "--noheader", "--states=all", "--jobs=" + id, "--format=%A|%T|%D|%N|%U"}, job))
    return nodes;
  return nodes_listed_by({"sacct", "--noheader", "--parsable2", "--allocations", "--jobs=" + id,
                          "--format=JobIDRaw,State,NNodes,NodeList"},
                         job);
}

namespace {

// With a step of the job. Slurm lets only the job's user create one, not even root.
Result<NodeAnswers> ask_by_step(const JobNodes& nodes, const std::vector<std::string>& names,
                                const std::string& job, const std::string& socket) {
  Program program{step_words(nodes, job, socket),
                  environment_outside_of_jobs(),
                  {},
                  most_bytes_of_pieces(names.size())};
  program.environment->push_back(std::string(k_observer_variable) + "=1");
  if (::geteuid() == 0 && nodes.uid.value_or(0) != 0) {
    TRY_ASSIGN(program.account, account_of(*nodes.uid));
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

Result<std::vector<NodeReport>> ask_nodes(const JobNodes& nodes, const std::string& job,
                                          const std::string& socket) {
  TRY_ASSIGN(const std::vector<std::string> names, expand_nodes(nodes.list));
  NodeAnswers answers;
  if (nodes.is_running) {
    TRY_ASSIGN(answers, ask_by_step(nodes, names, job, socket));
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

}  // namespace nodestage
