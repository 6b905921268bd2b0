#include "daemon/root/tasks/job_workers.hpp"

#include <unistd.h>

#include <algorithm>
#include <concepts>
#include <memory>

#include "common/text/human.hpp"
#include "daemon/root/basis/log.hpp"

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
  if constexpr (requires { order.sandbox; }) order.sandbox = config.worker.sandbox;
  if constexpr (requires { order.relay; }) {
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
  }
  if constexpr (requires { order.work_dir; }) order.work_dir = record.begin.work_dir;
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
  return Error{
      0,
      "nodestage is not open to " + printable(begin.user) + " on " + printable(begin.node) + " yet",
      "Submit the job without its options, or ask your administrators to be admitted "
      "(staging.users and staging.groups in nodestaged.toml)."}
      .text();
}

// The daemon ends it with the job.
constexpr std::uint64_t k_as_long_as_the_job = std::uint64_t{10} * 365 * 86'400;

Workers::Limits limits_of(WorkerTask task, const Config& config) {
  const bool stages =
      task == WorkerTask::stage || task == WorkerTask::relay || task == WorkerTask::keep;
  const bool looks = task == WorkerTask::identify || task == WorkerTask::look;
  const std::uint64_t run_s = task == WorkerTask::serve ? k_as_long_as_the_job
                              : stages                  ? config.staging.limit_s
                              : looks                   ? config.cache.identify_wait_s
                                                        : config.stageout.limit_s;
  return {.start = std::chrono::seconds(config.staging.groups_wait_s),
          .run = std::chrono::seconds(run_s),
          .kill = std::chrono::seconds(config.worker.kill_wait_s)};
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

namespace {

constexpr std::chrono::milliseconds k_status_age{100};

// Each stage-out and push has its own: an earlier one may be stuck in the kernel.
std::string cgroup_of(const JobRecord& record, WorkerTask task) {
  const std::string name = to_text(record.key()) + "." + traits_of(task).name;
  const std::uint32_t earlier = task == WorkerTask::stage_out ? record.stage_outs - 1
                                : task == WorkerTask::push    ? record.pushes_in_all
                                                              : 0;
  return earlier > 0 ? name + "." + std::to_string(earlier + 1) : name;
}

// Where the journal notes the worker of such a task; null: nowhere.
ProcessMark* mark_in(JobRecord& record, WorkerTask task) {
  const auto mark = traits_of(task).mark;
  return mark == nullptr ? nullptr : &(record.*mark);
}

}  // namespace

WorkerStart JobWorkers::order(const JobRecord& record, WorkerTask task) const {
  WorkerStart start;
  start.program = config_.daemon.worker_path;
  start.cgroup = cgroup_of(record, task);
  start.request = record.begin.request;
  start.order = blank_order(task);
  std::visit([&](auto& order) { fill(order, record, config_, files_.path(record)); }, start.order);
  if (DeliveryOrder* delivery = delivery_of(start.order)) {
    delivery->tries = record.stage_outs - (task == WorkerTask::stage_out ? 1 : 0);
    delivery->held_since = record.hold.since;
    delivery->keeps_list = traits_of(task).keeps_list;
    delivery->staged_ns = staged_ns(files_.status(record.key(), WorkerTask::stage));
  }
  return start;
}

JobWorkers::Bounds JobWorkers::bounds(const JobRecord& record, WorkerTask task) const {
  const CgroupLimits resources{record.begin.cpus, config_.worker.memory_bytes, config_.worker.pids};
  return {resources, limits_of(task, config_)};
}

Status JobWorkers::start(JobRecord& record, WorkerStart start, const Bounds& bounds,
                         const OnEnd& on_end) {
  const Which which{record.key(), task_of(start.order)};
  TRY_ASSIGN(const Fd status, files_.new_status(which.first, which.second));
  start.status_fd = status.get();
  Fd delivered;
  if (traits_of(which.second).keeps_list) {
    TRY_ASSIGN(delivered, files_.delivered_list(which.first));
    start.delivered_fd = delivered.get();
  }
  TRY_ASSIGN(const Fd rate, rates_.join(which.first, which.second, record.begin.uid));
  start.rate_fd = rate.get();
  // What belongs to a later worker of the task stays when an earlier one ends: it was stuck, or
  // nobody waited for it.
  const auto own = std::make_shared<Workers::Id>(0);
  const auto ended = [this, which, own, on_end,
                      is_last = on_end_of(which, on_end)](const WorkerEnd& end) {
    const auto last = at_work_.find(which);
    if (last == at_work_.end() || last->second.id == *own) return is_last(end);
    on_end(which.first, end);
  };
  const auto id =
      workers_.start(start, bounds.resources, bounds.limits, about(record, "worker"), ended);
  if (!id) {
    if (!at_work_.contains(which)) rates_.leave(which.first, which.second);
    return id.error();
  }
  *own = *id;
  at_work_.insert_or_assign(which, Worker{*id, loop_.now(), {}, {}, {}});
  if (ProcessMark* mark = mark_in(record, which.second)) *mark = workers_.mark(*id);
  return {};
}

bool JobWorkers::adopt(JobRecord& record, WorkerTask task, OnEnd on_end) {
  const Which which{record.key(), task};
  ProcessMark* mark = mark_in(record, task);
  if (mark == nullptr) return false;
  const auto id = workers_.adopt(*mark, cgroup_of(record, task), limits_of(task, config_),
                                 about(record, "worker"), on_end_of(which, std::move(on_end)));
  if (!id) {
    *mark = {};
    return false;
  }
  // The last daemon has counted what its status says so far.
  at_work_.insert_or_assign(
      which,
      Worker{*id, loop_.now() - age_of(*mark), work_of(files_.status(which.first, task)), {}, {}});
  const auto rate = rates_.join(which.first, task, record.begin.uid);
  if (!rate) log::error(about(record), "its worker keeps its rate: {}", rate.error().what);
  return true;
}

// The job may be forgotten by then.
Workers::OnEnd JobWorkers::on_end_of(const Which& which, OnEnd on_end) {
  return [this, which, on_end = std::move(on_end)](const WorkerEnd& end) {
    if (const auto found = at_work_.find(which); found != at_work_.end()) {
      count(which, found->second);
      at_work_.erase(found);
    }
    JobRecord* record = table_.find(which.first);
    if (record != nullptr) {
      if (ProcessMark* mark = mark_in(*record, which.second)) *mark = {};
    }
    rates_.leave(which.first, which.second);
    on_end(which.first, end);
  };
}

void JobWorkers::kill(const JobKey& key, WorkerTask task) {
  const auto found = at_work_.find({key, task});
  if (found != at_work_.end()) workers_.kill(found->second.id);
}

bool JobWorkers::is_working(const JobKey& key, WorkerTask task) const {
  return at_work_.count({key, task}) > 0;
}

std::uint64_t JobWorkers::age_ms(const JobKey& key, WorkerTask task) const {
  const auto found = at_work_.find({key, task});
  if (found == at_work_.end()) return 0;
  const Clock::duration age = loop_.now() - found->second.begun;
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(age).count());
}

WorkerStatus JobWorkers::status(const JobKey& key, WorkerTask task) const {
  const auto found = at_work_.find({key, task});
  if (found == at_work_.end()) return files_.status(key, task);
  const Worker& worker = found->second;
  if (loop_.now() - worker.read_at >= k_status_age) {
    worker.read = files_.status(key, task);
    worker.read_at = loop_.now();
  }
  return worker.read;
}

void JobWorkers::count_work() {
  for (auto& [which, worker] : at_work_) count(which, worker);
}

void JobWorkers::count(const Which& which, Worker& worker) {
  const auto activity = traits_of(which.second).activity;
  if (!activity) return;
  counters_.add_work(*activity, work_of(files_.status(which.first, which.second)), worker.counted);
}

}  // namespace nodestage
