// The workers of a job: what they are told, how they are started and taken over, what they say.
#include <random>

#include "daemon/root/basis/log.hpp"
#include "daemon/root/jobs/jobs.hpp"
#include "daemon/root/jobs/worker_orders.hpp"

namespace nodestage {
namespace {

std::uint32_t random_delay_ms(std::uint64_t largest_s) {
  std::random_device random;
  std::uniform_int_distribution<std::uint32_t> delays(0,
                                                      static_cast<std::uint32_t>(largest_s * 1000));
  return delays(random);
}

}  // namespace

Workers::OnEnd Jobs::on_end_of(const JobKey& key, WorkerTask task) {
  return [this, key, task](const WorkerEnd& end) {
    task == WorkerTask::stage_out ? stage_out_ended(key, end) : staging_ended(key, end);
  };
}

Status Jobs::start_worker(Job& job, WorkerTask task) {
  const JobKey key = job.record.key();
  TRY_ASSIGN(Fd directory, files_.directory(job.record));
  TRY_ASSIGN(const Fd status, files_.new_status(key, task));
  Fd answer;
  if (task == WorkerTask::stage) {
    TRY_ASSIGN(answer, desk_.make_answer_file(key));
  }
  WorkerStart start = order_of(job, task);
  start.answer_fd = answer.get();
  start.directory_fd = directory.get();
  start.status_fd = status.get();
  TRY_ASSIGN(job.worker, at_.workers.start(start, resources_of(job.record, at_.config),
                                           limits_of(task, at_.config), about(job.record, "worker"),
                                           on_end_of(key, task)));
  job.worker_begun = Clock::now();
  job.counted = {};
  job.record.worker = at_.workers.mark(*job.worker);
  if (task == WorkerTask::stage) desk_.open(key, about(job.record), std::move(directory));
  return {};
}

void Jobs::adopt_worker(Job& job, WorkerTask task) {
  const JobKey key = job.record.key();
  job.worker =
      at_.workers.adopt(job.record.worker, cgroup_of(job.record, task), limits_of(task, at_.config),
                        about(job.record, "worker"), on_end_of(key, task));
  job.worker_begun = Clock::now();
  if (job.worker) job.worker_begun -= age_of(job.record.worker);
  job.counted = work_of(worker_status(job, task));  // by the last daemon
  if (!job.worker || task != WorkerTask::stage) return;
  if (auto directory = files_.directory(job.record))
    desk_.open(key, about(job.record), std::move(*directory));
}

WorkerStart Jobs::order_of(const Job& job, WorkerTask task) const {
  const JobRecord& record = job.record;
  WorkerStart start = order_for(record, task, at_.config, files_.path(record));
  start.rate_fd = at_.rate_fd;
  if (task != WorkerTask::stage) return start;
  if (record.begin.node_count >= at_.config.read.start_jitter_nodes)
    start.order.start_delay_ms = random_delay_ms(at_.config.read.start_jitter_s);
  start.order.refuse_outputs = refusal_of_outputs(job);
  if (!at_.workers.ends_all()) start.order.refuse_venv = venv_refusal(record.begin.node);
  return start;
}

}  // namespace nodestage
