#include "daemon/root/staging/staging.hpp"

#include <algorithm>
#include <random>
#include <utility>

#include "common/talk/summary.hpp"
#include "common/text/human.hpp"
#include "daemon/root/basis/log.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::milliseconds k_directory_poll{200};
constexpr std::chrono::seconds k_quota_wait{60};

std::uint32_t random_delay_ms(std::uint64_t largest_s) {
  std::random_device random;
  std::uniform_int_distribution<std::uint32_t> delays(0,
                                                      static_cast<std::uint32_t>(largest_s * 1000));
  return delays(random);
}

}  // namespace

Result<Areas::Maker> Staging::make_directory(const JobRecord& record) const {
  if (!record.directory_is_ours) return Areas::Maker::another;
  auto made = deps_.areas.make_directory(record.directory, record.begin.uid, record.begin.gid);
  if (made) return made;
  return Error{made.error().code, "the job directory cannot be made: " + made.error().what};
}

// tmpdir.create = "never": a Prolog script of the site makes it after the SPANK prolog.
void Staging::await_directory(JobRecord& record) {
  deps_.table.change(record, JobState::waiting_for_directory);
  seek_directory(record.key(), deps_.loop.now() + std::chrono::seconds(deps_.config.tmpdir.wait_s));
}

void Staging::seek_directory(const JobKey& key, Clock::time_point give_up) {
  JobRecord* record = deps_.table.find(key);
  if (record == nullptr || record->state != JobState::waiting_for_directory) return;
  const auto directory =
      deps_.areas.open_directory(record->directory, record->begin.uid, mounts_of(*record));
  if (directory && *directory) return deps_.events.done(key, Fact::unstaged);
  // A fault can pass, too: between the site's mkdir and its chown, the directory is root's.
  if (deps_.loop.now() >= give_up) {
    if (!directory) return fail(*record, FailureCause::directory, directory.error());
    return fail(*record, FailureCause::directory,
                {0,
                 deps_.areas.path_of(record->directory) +
                     ": the site's Prolog has not made this directory within " +
                     human_duration(deps_.config.tmpdir.wait_s * 1000),
                 "Tell your administrators (tmpdir.create = \"never\" in nodestaged.toml)."});
  }
  deps_.loop.after(k_directory_poll, [this, key, give_up] { seek_directory(key, give_up); });
}

void Staging::enqueue(JobRecord& record) {
  // The word of an earlier worker is not the next one's.
  deps_.files.forget_status(record.key(), WorkerTask::stage);
  deps_.table.change(record, JobState::queued);
  deps_.events.done(record.key(), Fact::queued);
}

// It may be in the queue for what the keeper was to stage.
void Staging::await_step(const JobRecord& record) {
  queue_.erase(record.key());
  leave_place(record.key());
  first_steps_.wait(record);
}

void Staging::await_turn(const JobRecord& record) {
  const JobKey key = record.key();
  if (queue_.has_place(key)) return deps_.events.done(key, Fact::turn);
  queue_.push(key, record.begin.uid);
}

// A place that a job got while another step of it came in between, which it does not use.
void Staging::leave_place(const JobKey& key) {
  if (!queue_.has_place(key) || keeping_.is_keeping(key) ||
      deps_.workers.is_working(key, WorkerTask::stage))
    return;
  queue_.leave_place(key);
  queue_.go_on();
}

// Without the job's cgroup, the worker's own limits what it takes, to what Slurm says the job has.
Fd Staging::use_memory(const JobRecord& record, const std::string& cgroup, WorkerStart& start,
                       JobWorkers::Bounds& bounds) {
  auto& memory = std::get<StageOrder>(start.order).memory;
  auto directory = deps_.areas.make_in_memory(record.key(), record.begin.uid, record.begin.gid);
  if (!directory) {
    memory.refusal = directory.error().what;
    return {};
  }
  memory.directory = deps_.areas.memory_path(record.key());
  start.memory_fd = directory->get();
  start.job_cgroup = cgroup;
  if (!cgroup.empty()) cgroups_[record.key()] = cgroup;
  if (start.job_cgroup.empty()) {
    memory.most_bytes = first_steps_.memory_of(record.key());
    // Else worker.memory still bounds it.
    if (memory.most_bytes != 0) {
      bounds.resources.memory_bytes = memory.most_bytes;
      bounds.resources.is_jobs_memory = true;
    }
    log::warn(about(record),
              "in=memory: no memory cgroup of the job was found, so the data count as the node's "
              "memory (in slurm.conf: TaskPlugin=task/cgroup, PrologFlags=Contain; in cgroup.conf: "
              "ConstrainRAMSpace=yes)");
  }
  // What an environment's programs leave behind could not be told from the job's own processes.
  if (is_of_version_two(start.job_cgroup))
    std::get<StageOrder>(start.order).refuse_venv =
        Error{0,
              "on this node, a job cannot have both an environment and a dataset in memory (its "
              "kernel has cgroups of version 2)",
              "Leave out in=memory, or --stage-venv."}
            .text();
  return std::move(*directory);
}

void Staging::release_memory(const JobRecord& record) {
  if (!may_be_in_memory(record.begin.request)) return;
  if (const auto cgroup = cgroups_.extract(record.key())) remove_job_cgroup(cgroup.mapped());
  if (const Status moved = deps_.areas.move_memory_to_trash(record.key()); !moved)
    log::error(about(record), "what it has in memory cannot be removed: {}", moved.error().what);
}

void Staging::stage(JobRecord& record) {
  const JobKey key = record.key();
  queue_.erase(key);  // a job that only links, and was in it for what the keeper was to stage
  const bool has_memory = may_be_in_memory(record.begin.request);
  const std::string cgroup = has_memory ? first_steps_.cgroup_of(record) : "";
  if (has_memory && cgroup.empty() && first_steps_.had_step(key)) {
    // It has ended while the job was in the queue.
    queue_.leave_place(key);
    static_cast<void>(first_steps_.lost(key));
    deps_.events.done(key, Fact::step_lost);
    return queue_.go_on();
  }
  const Status started = start_worker(record, cgroup);
  if (started) {
    poll_reports();
    return deps_.table.change(record, JobState::staging);
  }
  queue_.leave_place(key);
  fail(record, FailureCause::start,
       {0, "staging could not be started: " + started.error().what,
        "Tell your administrators: the log of nodestaged on this node says more."});
  queue_.go_on();
}

// A job that only links to what is there has no place, and needs no relay.
Status Staging::start_worker(JobRecord& record, const std::string& cgroup) {
  TRY_ASSIGN(Fd directory, deps_.files.directory(record));
  TRY_ASSIGN(const Fd answer, deps_.allocator.make_answer_file(record.key()));
  WorkerStart start = order_of(record);
  start.answer_fd = answer.get();
  start.directory_fd = directory.get();
  const RelayFiles relay =
      queue_.has_place(record.key()) ? deps_.relays.start(record, directory.get()) : RelayFiles();
  std::get<StageOrder>(start.order).has_board = static_cast<bool>(relay.board);
  start.board_fd = relay.board.get();
  start.spool_fd = relay.spool.get();
  JobWorkers::Bounds bounds = deps_.workers.bounds(record, WorkerTask::stage);
  Fd memory;
  if (may_be_in_memory(record.begin.request)) memory = use_memory(record, cgroup, start, bounds);
  TRY(deps_.workers.start(record, start, bounds, [this](const JobKey& key, const WorkerEnd& end) {
    worker_ended(key, end);
  }));
  deps_.allocator.open(record.key(), about(record), std::move(directory));
  return {};
}

WorkerStart Staging::order_of(const JobRecord& record) const {
  WorkerStart start = deps_.workers.order(record, WorkerTask::stage);
  auto& order = std::get<StageOrder>(start.order);
  if (record.begin.node_count >= deps_.config.read.start_jitter_nodes)
    order.start_delay_ms = random_delay_ms(deps_.config.read.start_jitter_s);
  const auto& shared = record.shared;
  const bool is_kept = std::any_of(shared.begin(), shared.end(), [](const SharedItem& item) {
    return item.role != ShareRole::own;
  });
  const bool is_marked = deps_.config.staging.hints && deps_.config.cache.enabled;
  if (is_kept || is_marked) order.cache = deps_.cache.path();
  order.is_again = record.times.staging != 0 &&
                   (may_share(record.begin.request) || over_quota_.contains(record.key()));
  order.refuse_outputs = deps_.held.refusal_of_outputs(record);
  order.images = deps_.images.rules(record);
  if (!deps_.workers.ends_all()) order.refuse_venv = venv_refusal(record.begin.node);
  return start;
}

void Staging::adopt(JobRecord& record) {
  const auto on_end = [this](const JobKey& key, const WorkerEnd& end) { worker_ended(key, end); };
  if (!deps_.workers.adopt(record, WorkerTask::stage, on_end)) return;
  poll_reports();
  queue_.take_place(record.key(), record.begin.uid);
  if (auto directory = deps_.files.directory(record))
    deps_.allocator.open(record.key(), about(record), std::move(*directory));
}

void Staging::await_quota(const JobRecord& record) {
  look_at_trash(record.key(), deps_.loop.now() + k_quota_wait);
}

void Staging::look_at_trash(const JobKey& key, Clock::time_point give_up) {
  const JobRecord* record = deps_.table.find(key);
  if (record == nullptr || deps_.events.step_of(key) != Step::await_quota) return;
  if (!deps_.areas.has_trash_of(record->begin.uid) || deps_.loop.now() >= give_up)
    return deps_.events.done(key, Fact::unstaged);
  deps_.loop.after(k_directory_poll, [this, key, give_up] { look_at_trash(key, give_up); });
}

void Staging::fail(JobRecord& record, FailureCause why, const Error& cause,
                   const std::string& item) {
  deps_.counters.add_failure(Activity::stage, why);
  record.cause = printable(cause.text(), Newlines::keep);
  record.failure = record.cause;
  log::warn(about_item(record, item), "staging failed: {}", cause.text());
  deps_.table.set_state(record, JobState::failed);
  sharing_.failed(record);
  deps_.relays.stop(record.key());
  deps_.events.done(record.key(), Fact::failed);
}

void Staging::stop(JobRecord& record) {
  queue_.erase(record.key());
  leave_place(record.key());
  sharing_.release(record);
  deps_.relays.stop(record.key());
  if (!deps_.workers.is_working(record.key(), WorkerTask::stage)) return;
  deps_.table.change(record, JobState::stopping);
  deps_.workers.kill(record.key(), WorkerTask::stage);
}

std::string Staging::async_fault(const JobKey& key) const {
  const auto found = async_faults_.find(key);
  return found == async_faults_.end() ? "" : found->second;
}

std::string Staging::waits_for(const JobKey& key) const {
  const Step step = deps_.events.step_of(key);
  if (step == Step::await_mounts) return "its prolog, which mounts its images";
  if (step == Step::await_names) return "its first step, which says the names in its sources";
  if (step == Step::await_step) return "its first step on this node, whose memory it uses";
  if (step == Step::await_quota)
    return "room in its user's quota, in which what was kept for further jobs is being removed";
  std::string what = sharing_.waits_for(key);
  return what.empty() && step != Step::await_turn ? "a look at what it shares" : what;
}

std::string Staging::wait_line(const JobKey& key) const {
  return queue_line(waits_for(key), jobs_ahead(key));
}

void Staging::keep(JobRecord& record) {
  const JobKey key = record.key();
  const KeepItems items = sharing_.next_to_keep(record);
  const Status started = items.empty() ? Status() : start_keep(record, items);
  if (started && !items.empty()) return;
  queue_.leave_place(key);
  if (!started) {
    deps_.cache.remove_work(items.front().entry);
    sharing_.kept(record, items, {}, "did not start: " + started.error().what);
  }
  queue_.go_on();
}

Status Staging::start_keep(JobRecord& record, const KeepItems& items) {
  TRY_ASSIGN(const Fd directory, deps_.files.directory(record));
  return keeping_.keep(
      record, items, directory.get(),
      [this, items](const JobKey& key, const WorkerEnd& end) { keep_ended(key, items, end); });
}

// The job may have ended meanwhile. The place goes to whose turn it is: there are others' items
// between this job's.
void Staging::keep_ended(const JobKey& key, const KeepItems& items, const WorkerEnd& end) {
  static_cast<void>(deps_.allocator.close(key));
  queue_.leave_place(key);
  const JobRecord* record = deps_.table.find(key);
  if (record != nullptr && record->state == JobState::queued && !record->ended)
    sharing_.kept(*record, items, deps_.files.status(key, WorkerTask::keep), end.text);
  deps_.cache.remove_work(items.front().entry);
  queue_.go_on();
}

}  // namespace nodestage
