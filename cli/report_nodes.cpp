#include "cli/report_nodes.hpp"

#include <sstream>

#include "cli/report_pieces.hpp"
#include "cli/slurm_command.hpp"
#include "common/build_info.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::seconds k_question{30};
// For a place in the queue, and for the answers.
constexpr unsigned k_immediate_s = 60;
constexpr std::chrono::seconds k_answers{k_immediate_s + 60};

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
    if (count.find_first_not_of("0123456789") == std::string::npos && count.size() < 9)
      nodes.count = static_cast<std::uint32_t>(std::stoul("0" + count));
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

std::optional<JobNodes> find_job(std::uint32_t job) {
  const std::string id = std::to_string(job);
  const auto queue = run_slurm_command(
      {"squeue", "--noheader", "--states=all", "--jobs=" + id, "--format=%A|%T|%D|%N"},
      Complaints::hidden, k_question);
  if (queue) {
    if (auto nodes = parse_job_nodes(queue->text, job)) return nodes;
  }
  const auto accounting =
      run_slurm_command({"sacct", "--noheader", "--parsable2", "--allocations", "--jobs=" + id,
                         "--format=JobIDRaw,State,NNodes,NodeList"},
                        Complaints::hidden, k_question);
  return accounting ? parse_job_nodes(accounting->text, job) : std::nullopt;
}

Result<std::vector<NodeReport>> ask_nodes(const JobNodes& nodes, const std::string& job,
                                          const std::string& socket) {
  TRY_ASSIGN(const Printed printed,
             run_slurm_command(srun_words(nodes, job, socket), Complaints::shown, k_answers));
  auto reports = from_pieces(printed.text);
  if (reports.empty() && printed.code != 0) return Error{EIO, "srun failed"};
  return reports;
}

}  // namespace nodestage
