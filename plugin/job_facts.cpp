#include "plugin/job_facts.hpp"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "common/request/request.hpp"
#include "common/text/parsing.hpp"
#include "plugin/cpus_per_node.hpp"
#include "plugin/slurm_host.hpp"

namespace nodestage {
namespace {

// What a message has left beside the request and the other fields.
constexpr std::size_t k_max_list_bytes = k_max_message_bytes - k_max_request_bytes - 16 * 1024;

std::size_t list_bytes(const std::vector<std::string>& names) {
  std::size_t bytes = 0;
  for (const auto& name : names) bytes += sizeof(std::uint32_t) + name.size();
  return bytes;
}

// For an unknown index or a list that is too short, the first node's CPUs.
std::uint32_t cpus_of(std::uint32_t node_index) {
  const std::string cpus = text_from_environment("SLURM_JOB_CPUS_PER_NODE");
  if (const auto here = cpus_of_node(cpus, node_index)) return *here;
  return cpus_of_node(cpus, 0).value_or(1);
}

void add_nodes(Begin& begin) {
  std::vector<std::string> names = names_in_host_list(prolog_host_list());
  const auto here = std::find(names.begin(), names.end(), begin.node);
  if (here == names.end()) return;
  begin.node_count = static_cast<std::uint32_t>(names.size());
  begin.node_index = static_cast<std::uint32_t>(here - names.begin());
  begin.slurm_ways = prologs_run_at_allocation() ? k_at_allocation : 0;
  if (list_bytes(names) > k_max_list_bytes) return;
  begin.first_node = names.front();
  if (begin.node_index == 0) begin.nodes = std::move(names);
}

}  // namespace

std::string text_from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

std::uint32_t number_from_environment(const char* name) {
  return parse_number<std::uint32_t>(text_from_environment(name)).value_or(0);
}

std::string requested_staging() { return text_from_environment("SPANK_NODESTAGE_SPEC"); }

Begin begin_from_environment() {
  Begin begin;
  begin.job = number_from_environment("SLURM_JOB_ID");
  begin.restart = number_from_environment("SLURM_JOB_RESTART_COUNT");
  begin.uid = number_from_environment("SLURM_JOB_UID");
  begin.gid = number_from_environment("SLURM_JOB_GID");
  begin.user = text_from_environment("SLURM_JOB_USER");
  begin.node = text_from_environment("SLURMD_NODENAME");
  begin.node_count = std::max(1U, number_from_environment("SLURM_JOB_NUM_NODES"));
  add_nodes(begin);
  if (powers_down(begin.node)) begin.slurm_ways |= k_powers_down;
  begin.cpus = cpus_of(begin.node_index);
  begin.work_dir = text_from_environment("SLURM_JOB_WORK_DIR");
  begin.stdout_path = text_from_environment("SLURM_JOB_STDOUT");
  if (begin.stdout_path.size() > PATH_MAX) begin.stdout_path.clear();
  begin.request = requested_staging();
  return begin;
}

End end_from_environment() {
  End end;
  end.job = number_from_environment("SLURM_JOB_ID");
  // The count comes from the job's credential, which not every epilog has.
  if (!text_from_environment("SLURM_JOB_RESTART_COUNT").empty())
    end.restart = number_from_environment("SLURM_JOB_RESTART_COUNT");
  end.exit_code = number_from_environment("SLURM_JOB_EXIT_CODE");
  return end;
}

}  // namespace nodestage
