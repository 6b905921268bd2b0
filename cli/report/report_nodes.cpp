#include "cli/report/report_nodes.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <string_view>

#include "cli/base/programs.hpp"
#include "cli/base/slurm_job.hpp"
#include "cli/report/report_pieces.hpp"
#include "cli/status/status_nodes.hpp"
#include "common/build_info.hpp"
#include "common/request/job_environment.hpp"
#include "common/text/human.hpp"
#include "common/text/parsing.hpp"

namespace nodestage {
namespace {

// The limit for the job to start, and for the answers.
constexpr unsigned k_immediate_s = 60;
constexpr std::chrono::seconds k_answers{k_immediate_s + 60};

std::optional<JobNodes> nodes_listed_by(const std::vector<std::string>& words, std::uint32_t job) {
  return parse_job_nodes(run_program({words, environment_outside_of_jobs(), {}}).output, job);
}

}  // namespace

std::vector<std::string> environment_outside_of_jobs() {
  static constexpr std::string_view k_defaults[] = {
      "SLURM_CONF", "SLURM_ACCOUNT", "SLURM_PARTITION", "SLURM_QOS", "SLURM_RESERVATION"};
  std::vector<std::string> environment;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const std::string_view name = text.substr(0, text.find('='));
    if (!name.starts_with("SLURM_") ||
        std::find(std::begin(k_defaults), std::end(k_defaults), name) != std::end(k_defaults))
      environment.emplace_back(text);
  }
  return environment;
}

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

std::vector<std::string> srun_words(const JobNodes& nodes, const std::string& job,
                                    const std::string& socket) {
  std::vector<std::string> words = {"srun",
                                    "--quiet",
                                    "--mpi=none",
                                    "--kill-on-bad-exit=0",
                                    "--stage-wait=none",
                                    "--nodelist=" + nodes.list,
                                    "--ntasks-per-node=1"};
  if (nodes.count != 0) {
    const std::string count = std::to_string(nodes.count);
    words.insert(words.end(), {"--nodes=" + count, "--ntasks=" + count});
  }
  if (nodes.is_running) {
    words.insert(words.end(), {"--jobid=" + job.substr(0, job.find('.')), "--overlap"});
  } else {
    words.insert(words.end(), {"--job-name=nodestage-report", "--time=1", "--cpus-per-task=1",
                               "--mem=32M", "--immediate=" + std::to_string(k_immediate_s)});
  }
  words.insert(words.end(), {"nodestage", "report", job, "--pieces"});
  if (socket != k_socket_path) words.push_back("--socket=" + socket);
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

Result<std::vector<NodeReport>> ask_nodes(const JobNodes& nodes, const std::string& job,
                                          const std::string& socket) {
  TRY_ASSIGN(const std::vector<std::string> names, expand_nodes(nodes.list));
  Program program{srun_words(nodes, job, socket),
                  environment_outside_of_jobs(),
                  {},
                  most_bytes_of_pieces(names.size())};
  program.environment->push_back(std::string(k_observer_variable) + "=1");
  // Slurm lets only the job's user create a step of it, not even root.
  if (::geteuid() == 0 && nodes.uid.value_or(0) != 0) {
    TRY_ASSIGN(program.account, account_of(*nodes.uid));
    program.environment = step_environment();
  }
  const ProgramEnd end = run_program(program, k_answers);
  std::fputs(printable(end.errors, Newlines::keep).c_str(), stderr);
  if (end.is_cut)
    std::fputs("nodestage: the nodes have written too much: the report is not complete\n", stderr);
  auto reports = from_pieces(end.output, names);
  if (!reports.empty() || end.code == 0) return reports;
  if (end.is_not_run()) return Error{ENOENT, "srun cannot be run on this host"};
  return end.late ? Error{ETIMEDOUT, "srun took too long"} : Error{EIO, "srun failed"};
}

}  // namespace nodestage
