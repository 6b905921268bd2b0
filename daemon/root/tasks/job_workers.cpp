#include "daemon/root/tasks/job_workers.hpp"

#include <unistd.h>

#include <algorithm>
#include <optional>

#include "daemon/root/basis/log.hpp"
#include "daemon/root/tasks/worker_orders.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::milliseconds k_status_age{100};

// Where the journal notes the worker of such a task; null: nowhere.
ProcessMark* mark_in(JobRecord& record, WorkerTask task) {
  if (task == WorkerTask::push) return &record.pusher;
  if (task == WorkerTask::relay) return &record.relayer;
  return task == WorkerTask::stage || task == WorkerTask::stage_out ? &record.worker : nullptr;
}

std::optional<Activity> activity_of(WorkerTask task) {
  switch (task) {
    case WorkerTask::stage:
      return Activity::stage;
    case WorkerTask::stage_out:
      return Activity::stage_out;
    case WorkerTask::push:
      return Activity::push;
    default:
      return {};
  }
}

bool delivers(WorkerTask task) { return keeps_list(task) || task == WorkerTask::recover; }

}  // namespace

WorkerStart JobWorkers::order(const JobRecord& record, WorkerTask task) const {
  WorkerStart start = order_for(record, task, config_, files_.path(record));
  start.rate_fd = keeps_list(task) ? rates_.deliver : rates_.read;
  if (delivers(task))
    start.order.staged_ns = staged_ns(files_.status(record.key(), WorkerTask::stage));
  return start;
}

JobWorkers::Bounds JobWorkers::bounds(const JobRecord& record, WorkerTask task) const {
  return {resources_of(record, config_), limits_of(task, config_)};
}

Status JobWorkers::start(JobRecord& record, WorkerStart start, const Bounds& bounds, OnEnd on_end) {
  const Which which{record.key(), start.order.task};
  TRY_ASSIGN(const Fd status, files_.new_status(which.first, which.second));
  start.status_fd = status.get();
  Fd delivered;
  if (start.order.keeps_list) {
    TRY_ASSIGN(delivered, files_.delivered_list(which.first));
    start.delivered_fd = delivered.get();
  }
  TRY_ASSIGN(const Workers::Id id,
             workers_.start(start, bounds.resources, bounds.limits, about(record, "worker"),
                            on_end_of(which, std::move(on_end))));
  at_work_.insert_or_assign(which, Worker{id, loop_.now(), {}, {}, {}});
  if (ProcessMark* mark = mark_in(record, which.second)) *mark = workers_.mark(id);
  share_rate();
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
  share_rate();
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
    share_rate();
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

Clock::duration JobWorkers::age(const JobKey& key, WorkerTask task) const {
  const auto found = at_work_.find({key, task});
  return found == at_work_.end() ? Clock::duration() : loop_.now() - found->second.begun;
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

// Every worker that delivers gets the same share of the node's rate.
void JobWorkers::share_rate() const {
  if (rates_.deliver < 0) return;
  const auto count = static_cast<std::uint64_t>(
      std::count_if(at_work_.begin(), at_work_.end(),
                    [](const auto& item) { return keeps_list(item.first.second); }));
  const std::uint64_t rate = config_.stageout.max_rate_bytes;
  const std::uint64_t share =
      rate == 0 ? 0 : std::max<std::uint64_t>(1, rate / std::max<std::uint64_t>(1, count));
  if (::pwrite(rates_.deliver, &share, sizeof share, 0) != sizeof share)
    log::error("the file with the rate of deliveries cannot be written");
}

void JobWorkers::count_work() {
  for (auto& [which, worker] : at_work_) count(which, worker);
}

void JobWorkers::count(const Which& which, Worker& worker) {
  const auto activity = activity_of(which.second);
  if (!activity) return;
  counters_.add_work(*activity, work_of(files_.status(which.first, which.second)), worker.counted);
}

}  // namespace nodestage
