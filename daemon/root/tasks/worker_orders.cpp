#include "daemon/root/tasks/worker_orders.hpp"

#include <algorithm>
#include <concepts>

#include "common/text/human.hpp"
#include "daemon/root/table/task_traits.hpp"

namespace nodestage {

namespace {

template <typename Order>
void fill(Order& order, const JobRecord& record, const Config& config,
          const std::string& directory) {
  const std::uint64_t threads = config.staging.threads;
  order.job = record.begin.job;
  order.restart = record.begin.restart;
  order.uid = record.begin.uid;
  order.gid = record.begin.gid;
  order.user = record.begin.user;
  order.node = record.begin.node;
  order.node_index = record.begin.node_index;
  order.node_count = record.begin.node_count;
  order.directory = directory;
  order.threads = threads == 0 ? record.begin.cpus : static_cast<std::uint32_t>(threads);
  if constexpr (std::derived_from<Order, IdentifyOrder>) set_rules(order, config);
  // The keeper is in none of them.
  if constexpr (std::same_as<Order, StageOrder> || std::same_as<Order, IdentifyOrder>) {
    if (may_stage(record.begin, config) == MayStage::by_groups) {
      order.only_groups = config.staging.groups;
      order.refuse_user = pilot_refusal(record.begin);
    }
  }
  if constexpr (std::derived_from<Order, StageOrder>) {
    order.leave_free_bytes = config.staging.leave_free_bytes;
    order.on_failure = config.staging.on_failure;
    order.shared = record.shared;
    order.memory.share_percent = config.memory.max_share_percent;
  }
  if constexpr (requires { order.relay; }) {
    order.sandbox = config.worker.sandbox;
    order.relay = config.relay;
    order.relay.answer_wait_s =
        static_cast<std::uint64_t>(relay_wait_of(record.begin, config).count());
  }
  if constexpr (std::derived_from<Order, NamedOrder>) {
    order.array_known = record.facts.known;
    order.array_job = record.facts.array_job;
    order.array_task = record.facts.array_task;
    order.job_name = record.facts.job_name;
  }
  if constexpr (std::derived_from<Order, DeliveryOrder>) {
    order.outcome = outcome_of(record);
    order.ran = record.may_have_run;
    order.delivered = record.hold.delivered;
  }
  if constexpr (std::derived_from<Order, NoticeOrder>) {
    order.stdout_path = record.begin.stdout_path;
    order.work_dir = record.begin.work_dir;
  }
}

}  // namespace

MayStage may_stage(const Begin& begin, const Config& config) {
  const auto& users = config.staging.users;
  const auto& groups = config.staging.groups;
  if ((users.empty() && groups.empty()) || begin.request.empty()) return MayStage::yes;
  if (std::find(users.begin(), users.end(), begin.user) != users.end()) return MayStage::yes;
  return groups.empty() ? MayStage::no : MayStage::by_groups;
}

std::string pilot_refusal(const Begin& begin) {
  return "nodestage is not open to " + printable(begin.user) + " on " + printable(begin.node) +
         " yet\nSubmit the job without its options, or ask your administrators to be admitted "
         "(staging.users and staging.groups in nodestaged.toml).";
}

// Each stage-out and push has its own: an earlier one may be stuck in the kernel.
std::string cgroup_of(const JobRecord& record, WorkerTask task) {
  const std::string name = to_text(record.key()) + "." + traits_of(task).name;
  const std::uint32_t earlier = task == WorkerTask::stage_out ? record.stage_outs - 1
                                : task == WorkerTask::push    ? record.pushes_in_all
                                                              : 0;
  return earlier > 0 ? name + "." + std::to_string(earlier + 1) : name;
}

Workers::Limits limits_of(WorkerTask task, const Config& config) {
  const bool stages =
      task == WorkerTask::stage || task == WorkerTask::relay || task == WorkerTask::keep;
  const bool looks = task == WorkerTask::identify || task == WorkerTask::look;
  const std::uint64_t run_s = stages  ? config.staging.limit_s
                              : looks ? config.cache.identify_wait_s
                                      : config.stageout.limit_s;
  return {.start = std::chrono::seconds(config.staging.groups_wait_s),
          .run = std::chrono::seconds(run_s),
          .kill = std::chrono::seconds(config.worker.kill_wait_s)};
}

CgroupLimits resources_of(const JobRecord& record, const Config& config) {
  return {record.begin.cpus, config.worker.memory_bytes, config.worker.pids};
}

WorkerStart order_for(const JobRecord& record, WorkerTask task, const Config& config,
                      const std::string& directory) {
  WorkerStart start;
  start.program = config.daemon.worker_path;
  start.cgroup = cgroup_of(record, task);
  start.request = record.begin.request;
  start.order = blank_order(task);
  std::visit([&](auto& order) { fill(order, record, config, directory); }, start.order);
  if (DeliveryOrder* delivery = delivery_of(start.order)) {
    delivery->tries = record.stage_outs - (task == WorkerTask::stage_out ? 1 : 0);
    delivery->keeps_list = traits_of(task).keeps_list;
  }
  return start;
}

// Making and checking the credential of one answer takes a few milliseconds.
std::chrono::seconds relay_wait_of(const Begin& begin, const Config& config) {
  constexpr std::uint32_t k_answers_a_second = 200;
  return std::chrono::seconds(config.relay.answer_wait_s + begin.node_count / k_answers_a_second);
}

std::string venv_refusal(const std::string& node) {
  return "environments are not staged on " + printable(node) +
         ": its nodestaged has no cgroups (worker.cgroup), so it could not stop what their "
         "programs leave behind";
}

}  // namespace nodestage
