// The workers of a job: what they are told, how they are started and taken over, what they say.
#include <fcntl.h>

#include <random>

#include "common/text/human.hpp"
#include "daemon/root/jobs.hpp"
#include "daemon/root/log.hpp"

namespace nodestage {
namespace {

const char* name_of(WorkerTask task) {
  switch (task) {
    case WorkerTask::stage_out:
      return "out";
    case WorkerTask::measure:
      return "measure";
    case WorkerTask::recover:
      return "recover";
    default:
      return "stage";
  }
}

// Each stage-out has one of its own: an earlier one may be stuck in the kernel.
std::string cgroup_of(const JobRecord& record, WorkerTask task) {
  const std::string name = to_text(record.key()) + "." + name_of(task);
  const bool again = task == WorkerTask::stage_out && record.stage_outs > 1;
  return again ? name + "." + std::to_string(record.stage_outs) : name;
}

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

Workers::Limits Jobs::limits_of(WorkerTask task) const {
  const std::uint64_t run_s =
      task == WorkerTask::stage ? at_.config.staging.limit_s : at_.config.stageout.limit_s;
  return {std::chrono::seconds(at_.config.staging.groups_wait_s), std::chrono::seconds(run_s),
          std::chrono::seconds(at_.config.worker.kill_wait_s)};
}

Status Jobs::start_worker(Job& job, WorkerTask task) {
  const JobKey key = job.record.key();
  TRY_ASSIGN(Fd directory, job_directory(job));
  TRY_ASSIGN(const Fd status, new_status(job, task));
  Fd answer;
  if (task == WorkerTask::stage) {
    TRY_ASSIGN(answer, make_answer_file(job));
  }
  WorkerStart start = order_for(job, task);
  start.answer_fd = answer.get();
  start.directory_fd = directory.get();
  start.status_fd = status.get();
  const CgroupLimits resources{job.record.begin.cpus, at_.config.worker.memory_bytes,
                               at_.config.worker.pids};
  TRY_ASSIGN(job.worker, at_.workers.start(start, resources, limits_of(task),
                                           about(job.record, "worker"), on_end_of(key, task)));
  job.worker_begun = Clock::now();
  job.counted = {};
  job.record.worker = at_.workers.mark(*job.worker);
  if (task == WorkerTask::stage) watch_space(job, std::move(directory));
  return {};
}

void Jobs::adopt_worker(Job& job, WorkerTask task) {
  const JobKey key = job.record.key();
  job.worker = at_.workers.adopt(job.record.worker, cgroup_of(job.record, task), limits_of(task),
                                 about(job.record, "worker"), on_end_of(key, task));
  job.worker_begun = Clock::now();
  if (job.worker) job.worker_begun -= age_of(job.record.worker);
  job.counted = work_of(worker_status(job, task));  // by the last daemon
  if (!job.worker || task != WorkerTask::stage) return;
  if (auto directory = job_directory(job)) watch_space(job, std::move(*directory));
}

WorkerStart Jobs::order_for(const Job& job, WorkerTask task) const {
  const JobRecord& record = job.record;
  const std::uint64_t threads = at_.config.staging.threads;
  WorkerStart start;
  start.program = at_.config.daemon.worker_path;
  start.cgroup = cgroup_of(record, task);
  start.request = record.begin.request;
  start.rate_fd = at_.rate_fd;
  WorkerOrder& order = start.order;
  order.task = task;
  order.job = record.begin.job;
  order.restart = record.begin.restart;
  order.uid = record.begin.uid;
  order.gid = record.begin.gid;
  order.user = record.begin.user;
  order.node = record.begin.node;
  order.node_index = record.begin.node_index;
  order.node_count = record.begin.node_count;
  order.directory = at_.areas.path_of(record.directory);
  order.threads = threads == 0 ? record.begin.cpus : static_cast<std::uint32_t>(threads);
  if (task == WorkerTask::stage && order.node_count >= at_.config.read.start_jitter_nodes) {
    order.start_delay_ms = random_delay_ms(at_.config.read.start_jitter_s);
  }
  order.leave_free_bytes = at_.config.staging.leave_free_bytes;
  order.on_failure = at_.config.staging.on_failure;
  if (task == WorkerTask::stage) order.refuse_outputs = refusal_of_outputs(job);
  if (task == WorkerTask::stage && !at_.workers.ends_all())
    order.refuse_venv =
        "environments are not staged on " + printable(record.begin.node) +
        ": its nodestaged has no cgroups (worker.cgroup), so it could not end what their programs "
        "leave behind";
  order.sandbox = at_.config.worker.sandbox;
  order.extract = at_.config.extract;
  order.venv_build = at_.config.venv.build;
  order.venv_installer = at_.config.venv.installer;
  order.venv_find_links = at_.config.venv.find_links;
  order.venv_uv = at_.config.venv.uv;
  order.venv_module_init = at_.config.venv.module_init;
  order.venv_limit_s = static_cast<std::uint32_t>(at_.config.venv.limit_s);
  order.outcome = outcome_of(record);
  order.array_known = record.facts.known;
  order.array_job = record.facts.array_job;
  order.array_task = record.facts.array_task;
  order.job_name = record.facts.job_name;
  order.ran = record.may_have_run;
  order.delivered = record.hold.delivered;
  order.tries = record.stage_outs - (task == WorkerTask::stage_out ? 1 : 0);
  order.stdout_path = record.begin.stdout_path;
  order.work_dir = record.begin.work_dir;
  return start;
}

Result<Fd> Jobs::new_status(const Job& job, WorkerTask task) const {
  return at_.areas.open_status(job.record.key(), name_of(task), O_RDWR | O_CREAT | O_TRUNC);
}

WorkerStatus Jobs::worker_status(const Job& job, WorkerTask task) const {
  const auto fd = at_.areas.open_status(job.record.key(), name_of(task), O_RDONLY);
  if (!fd) return {};
  auto status = read_worker_status(fd->get());
  return status ? std::move(*status) : WorkerStatus{};
}

Result<Fd> Jobs::job_directory(const Job& job) const {
  const JobRecord& record = job.record;
  TRY_ASSIGN(auto fd, record.in_hold ? at_.areas.open_held(record.key(), record.begin.uid)
                                     : at_.areas.open_directory(record.directory, record.begin.uid,
                                                                mounts_of(record)));
  if (!fd)
    return Error{ENOENT, at_.areas.path_of(record.directory) + ": the job directory is gone"};
  return std::move(*fd);
}

}  // namespace nodestage
