#include "cli/run/run_order.hpp"

#include <unistd.h>

#include <cstdlib>

#include "cli/base/this_node.hpp"
#include "common/text/human.hpp"
#include "common/text/name_pattern.hpp"

namespace nodestage {
namespace {

std::string job_name(const std::string& command) {
  const char* name = std::getenv("SLURM_JOB_NAME");
  if (name != nullptr && *name != '\0') return name;
  return command.substr(command.rfind('/') + 1);
}

}  // namespace

StageOutOrder run_order(const std::string& directory, const std::string& command) {
  StageOutOrder order;
  order.job = number_in("SLURM_JOB_ID").value_or(static_cast<std::uint32_t>(::getpid()));
  order.restart = number_in("SLURM_RESTART_COUNT").value_or(0);
  order.uid = ::getuid();
  order.gid = ::getgid();
  order.user = user_name();
  order.node = node_name();
  order.node_index = number_in("SLURM_NODEID").value_or(0);
  order.directory = directory;
  order.threads = usable_cpus();
  order.job_name = job_name(command);
  const auto array_job = number_in("SLURM_ARRAY_JOB_ID");
  const auto array_task = number_in("SLURM_ARRAY_TASK_ID");
  order.array_known = true;
  if (array_task) {
    order.array_job = array_job.value_or(order.job);
    order.array_task = *array_task;
  }
  return order;
}

std::vector<SharedItem> share_nothing(const StageRequest& request) {
  std::vector<SharedItem> items;
  const auto add = [&items](std::size_t index) {
    SharedItem item;
    item.item = static_cast<std::uint32_t>(index);
    item.note = "`nodestage run` keeps nothing";
    items.push_back(std::move(item));
  };
  for (std::size_t i = 0; i < request.datasets.size(); ++i) {
    if (request.datasets[i].shared) add(i);
  }
  if (request.venv && request.venv->shared) add(request.datasets.size());
  return items;
}

// Slurm's own value of %a outside of an array is a number that is useless in a path.
Status check_targets(const StageRequest& request, const NamedOrder& order) {
  PatternFacts facts;
  facts.job = order.job;
  facts.restart = order.restart;
  facts.user = order.user;
  facts.node = order.node;
  facts.node_index = order.node_index;
  facts.job_name = order.job_name;
  facts.array_job = order.array_job == k_no_number ? order.job : order.array_job;
  if (order.array_task != k_no_number) facts.array_task = order.array_task;
  for (const OutputItem& item : request.outputs) {
    const auto expanded = expand_pattern(item.target, facts);
    if (expanded) continue;
    return Error{expanded.error().code,
                 "--stage-out, target '" + printable(item.target) + "': " + expanded.error().text(),
                 "This is not a task of a job array: give it a number with "
                 "SLURM_ARRAY_TASK_ID=1 before the command, or leave the pattern out."};
  }
  return {};
}

}  // namespace nodestage
