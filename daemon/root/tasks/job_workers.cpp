#include "daemon/root/tasks/job_workers.hpp"

#include <memory>
#include <utility>

#include "daemon/root/basis/log.hpp"
#include "daemon/root/tasks/worker_orders.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::milliseconds k_status_age{100};

// Where the journal notes the worker of such a task; null: nowhere.
ProcessMark* mark_in(JobRecord& record, WorkerTask task) {
  const auto mark = traits_of(task).mark;
  return mark == nullptr ? nullptr : &(record.*mark);
}

}  // namespace

WorkerStart JobWorkers::order(const JobRecord& record, WorkerTask task) const {
  WorkerStart start = order_for(record, task, config_, files_.path(record));
  if (DeliveryOrder* delivery = delivery_of(start.order))
    delivery->staged_ns = staged_ns(files_.status(record.key(), WorkerTask::stage));
  return start;
}

JobWorkers::Bounds JobWorkers::bounds(const JobRecord& record, WorkerTask task) const {
  return {resources_of(record, config_), limits_of(task, config_)};
}

Status JobWorkers::start(JobRecord& record, WorkerStart start, const Bounds& bounds, OnEnd on_end) {
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

void JobWorkers::count_work() {
  for (auto& [which, worker] : at_work_) count(which, worker);
}

void JobWorkers::count(const Which& which, Worker& worker) {
  const auto activity = traits_of(which.second).activity;
  if (!activity) return;
  counters_.add_work(*activity, work_of(files_.status(which.first, which.second)), worker.counted);
}

}  // namespace nodestage
