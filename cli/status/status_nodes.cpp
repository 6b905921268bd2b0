#include "cli/status/status_nodes.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "cli/base/conversation.hpp"
#include "common/build_info.hpp"
#include "common/request/job_environment.hpp"

namespace nodestage {
namespace {

// The output that is read from all nodes together. A node's share is at least enough for 100 items.
constexpr std::size_t k_all_bytes = std::size_t{64} << 20;
constexpr std::size_t k_least_bytes = std::size_t{64} << 10;

std::string why_no_answer(const ProgramEnd& end) {
  return why_srun_failed(end, k_program_limit, 300);
}

}  // namespace

std::vector<std::string> step_environment() {
  std::vector<std::string> environment{std::string(k_observer_variable) + "=1", "LC_ALL=C.UTF-8"};
  for (const char* name : {"PATH", "SLURM_CONF"}) {
    if (const char* value = std::getenv(name); value != nullptr)
      environment.push_back(std::string(name) + "=" + value);
  }
  return environment;
}

Program step_on(const std::string& node, const SlurmJob& job, const std::string& socket) {
  const std::string id = std::to_string(job.id);
  Program program;
  program.words = {"srun",         "--jobid=" + id,
                   "--overlap",    "--nodes=1",
                   "--ntasks=1",   "--nodelist=" + node,
                   "--input=none", "--mpi=none",
                   "--quiet",      "nodestage",
                   "status",       "--here",
                   "--json",       id};
  if (socket != k_socket_path) program.words.push_back("--socket=" + socket);
  program.environment = step_environment();
  return program;
}

void add_answer(StatusReport& report, const std::string& node, const SlurmJob& job,
                const ProgramEnd& end) {
  if (end.is_cut) {
    report.faults.push_back({node, "the answer is too long"});
  } else if (end.code == 0 && !end.late) {
    auto jobs = jobs_of_json(end.output);
    if (!jobs) return report.faults.push_back({node, jobs.error().text()});
    const bool is_of_job = std::all_of(jobs->begin(), jobs->end(), [&](const JobStatus& status) {
      return status.row.job == job.id && status.row.uid == job.uid;
    });
    if (!is_of_job) return report.faults.push_back({node, "an answer about another job"});
    std::move(jobs->begin(), jobs->end(), std::back_inserter(report.jobs));
  } else if (end.code == k_no_such_job) {
    report.faults.push_back({node, "nodestaged on this node does not know the job"});
  } else {
    report.faults.push_back({node, why_no_answer(end)});
  }
}

Result<StatusReport> ask_nodes(const SlurmJob& job, const std::string& socket) {
  TRY_ASSIGN(const std::vector<std::string> nodes, expand_nodes(job.nodes));
  std::optional<Account> account;
  if (job.uid != ::geteuid()) {
    TRY_ASSIGN(account, account_of(job.uid));
  }
  const std::size_t share = k_all_bytes / std::max<std::size_t>(nodes.size(), 1);
  std::vector<Program> programs;
  for (const std::string& node : nodes) {
    programs.push_back(step_on(node, job, socket));
    programs.back().account = account;
    programs.back().most_output = std::clamp(share, k_least_bytes, k_max_status_bytes);
  }
  const std::vector<ProgramEnd> ends = run_programs(programs);
  StatusReport report;
  const bool nobody_knows = std::all_of(
      ends.begin(), ends.end(), [](const ProgramEnd& end) { return end.code == k_no_such_job; });
  if (nobody_knows) return report;
  for (std::size_t i = 0; i < nodes.size(); ++i) add_answer(report, nodes[i], job, ends[i]);
  return report;
}

}  // namespace nodestage
