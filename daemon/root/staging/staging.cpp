#include "daemon/root/staging/staging.hpp"

#include <algorithm>
#include <random>
#include <utility>

#include "common/talk/summary.hpp"
#include "common/text/human.hpp"
#include "daemon/root/basis/log.hpp"
#include "daemon/root/tasks/job_workers.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::milliseconds k_directory_poll{200};
constexpr std::chrono::seconds k_quota_wait{60};
constexpr std::chrono::milliseconds k_tick{5};
constexpr std::chrono::milliseconds k_report_poll{100};

// The source of the item for which the job fails; "" if it does not fail for an item.
std::string failed_source(const WorkerStatus& status) {
  return status.failed_item ? field_text(status.items[*status.failed_item].source) : "";
}

std::uint32_t random_delay_ms(std::uint64_t largest_s) {
  std::random_device random;
  std::uniform_int_distribution<std::uint32_t> delays(0,
                                                      static_cast<std::uint32_t>(largest_s * 1000));
  return delays(random);
}

// Why a job fails whose worker ended without reporting a cause.
Error cause_of_end(const WorkerEnd& end) {
  switch (end.kind) {
    case WorkerEnd::Kind::over_limit:
      return {0, "the staging " + end.text + " and was stopped",
              "Ask for less data, or ask your administrators (staging.limit in nodestaged.toml on "
              "this node)."};
    case WorkerEnd::Kind::no_memory:
      return {
          0, "the staging process " + end.text,
          "Pack the data so that less is needed to unpack them (xz -6, zstd without --long), or "
          "ask your administrators."};
    case WorkerEnd::Kind::job_memory:
      return {0, "the staging " + end.text + ", in which the data of in=memory count",
              "Ask for more memory (--mem=SIZE), or leave out in=memory: the data go to the node's "
              "local disk then."};
    case WorkerEnd::Kind::not_started:
    case WorkerEnd::Kind::step_gone:
    case WorkerEnd::Kind::done:
    case WorkerEnd::Kind::ended:
    case WorkerEnd::Kind::killed:
    case WorkerEnd::Kind::stuck:
      break;
  }
  const bool started =
      end.kind != WorkerEnd::Kind::not_started && end.kind != WorkerEnd::Kind::step_gone;
  return {0,
          started ? "the staging process " + end.text + " before it was done"
                  : "the staging process could not be started: " + end.text,
          "Submit again; if it happens again, tell your administrators: the log of nodestaged on "
          "this node says more."};
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
  first_steps_.wait(record);
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

void Staging::take_turn(const JobKey& key) {
  const JobRecord* record = deps_.table.find(key);
  if (record == nullptr || record->state != JobState::queued || record->ended) return;
  queue_.take_place(key, record->begin.uid);
  deps_.events.done(key, Fact::turn);
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

void Staging::read_staging(JobRecord& record) {
  // The last daemon could not note it.
  if (record.state == JobState::queued) deps_.table.set_state(record, JobState::staging);
  worker_ended(record.key(), {});
}

void Staging::worker_ended(const JobKey& key, const WorkerEnd& end) {
  queue_.leave_place(key);
  const bool lacked_space = deps_.allocator.close(key);
  if (JobRecord* record = deps_.table.find(key)) take_end(*record, end, lacked_space);
  queue_.go_on();
}

void Staging::take_end(JobRecord& record, const WorkerEnd& end, bool lacked_space) {
  const WorkerStatus status = deps_.files.status(record.key(), WorkerTask::stage);
  const bool is_done = status.phase == WorkerPhase::done;
  if (is_done) log_items(record, "staged: ", status, summary_lines(status));
  if (record.ended) return deps_.events.done(record.key(), Fact::stopped);
  const bool is_again = deps_.events.step_of(record.key()) == Step::end_staging;
  if (is_again && record.state == JobState::staging)
    return deps_.events.done(record.key(), Fact::unstaged);
  // Its journal could not be written meanwhile.
  if (record.state == JobState::failed) return deps_.table.save(record);
  if (!is_done) static_cast<void>(keep_complete(record, status));
  if (status.phase == WorkerPhase::failed && stage_again(record, status)) return;
  if (await_next_step(record, end)) return;
  const FailureCause why = lacked_space ? FailureCause::space : cause_of(end, status);
  if (status.phase == WorkerPhase::failed)
    return fail(record, why, {0, status.cause}, failed_source(status));
  if (is_done) return become_ready(record, status, Sharing::Report::last);
  if (record.state != JobState::ready) return fail(record, why, cause_of_end(end));
  log::warn(about(record), "the worker {} before its async items were staged", end.text);
  async_faults_[record.key()] = "the staging process " + end.text + " before it was staged";
  sharing_.failed(record);
  deps_.table.save(record);
}

// Once for each job: what is kept and not in use is not worth a failure at its user's quota.
bool Staging::stage_again(JobRecord& record, const WorkerStatus& status) {
  const bool is_quota =
      std::any_of(status.items.begin(), status.items.end(),
                  [](const ItemRecord& item) { return (item.flags & k_item_over_quota) != 0; });
  const JobKey key = record.key();
  if (!is_quota || over_quota_.contains(key) || record.state != JobState::staging ||
      !deps_.cache.make_room_of(record.begin.uid))
    return false;
  over_quota_.insert(key);
  log::info(about(record), "over its user's quota: what is kept for further jobs goes");
  sharing_.failed(record);
  deps_.table.change(record, JobState::queued);
  deps_.events.done(key, Fact::over_quota);
  return true;
}

// Between the look for the job's step and the worker's start, the step has ended.
bool Staging::await_next_step(JobRecord& record, const WorkerEnd& end) {
  if (end.kind != WorkerEnd::Kind::step_gone || record.state != JobState::staging ||
      !first_steps_.lost(record.key()))
    return false;
  log::info(about(record), "in=memory: {}; the job waits for its next one", end.text);
  deps_.relays.stop(record.key());  // the next start has one of its own
  sharing_.failed(record);
  deps_.table.change(record, JobState::queued);
  deps_.events.done(record.key(), Fact::unstaged);
  return true;
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

// First, what was staged for others is moved to where its links lead.
void Staging::become_ready(JobRecord& record, const WorkerStatus& status, Sharing::Report report) {
  const Status kept = sharing_.staged(record, status, report);
  if (record.state == JobState::ready) return deps_.table.save(record);
  if (!kept && report == Sharing::Report::last)
    return deps_.events.done(record.key(), Fact::unstaged);
  if (!kept) return deps_.events.done(record.key(), Fact::spoilt);
  if (!sharing_.is_settled(record)) return deps_.events.done(record.key(), Fact::fresh);
  if (deps_.config.staging.hints) count_sources(record, status);
  deps_.events.done(record.key(), Fact::ready);
}

void Staging::count_sources(const JobRecord& record, const WorkerStatus& status) {
  for (std::size_t i = 0; i < status.items.size(); ++i) {
    std::string hint =
        repeated_.count({record.begin.uid, record.key().job}, status.items[i], deps_.loop.wall_s());
    if (!hint.empty()) hints_[record.key()][i] = std::move(hint);
  }
}

void Staging::add_hints(const JobKey& key, WorkerStatus& status) const {
  const auto hints = hints_.find(key);
  if (hints == hints_.end()) return;
  for (const auto& [index, hint] : hints->second) {
    if (index >= status.items.size()) continue;
    auto& note = status.items[index].note;
    std::string text = field_text(note);
    text += (text.empty() ? "" : "; ") + hint;
    if (text.size() < sizeof note) set_field(note, text);
  }
}

void Staging::await_tick(const JobKey& key) {
  deps_.loop.after(k_tick, [this, key] {
    if (deps_.events.step_of(key) == Step::await_tick) deps_.events.done(key, Fact::staged_more);
  });
}

// One timer for all jobs, while there are any that stage.
void Staging::poll_reports() {
  if (poll_) return;
  poll_ = deps_.loop.after(k_report_poll, [this] {
    poll_.reset();
    std::vector<JobKey> staging;
    for (const auto& [key, record] : deps_.table.all()) {
      if (record.state == JobState::staging) staging.push_back(key);
    }
    if (!staging.empty()) poll_reports();
    for (const JobKey& key : staging) {
      const JobRecord* record = deps_.table.find(key);
      if (record != nullptr && has_staged_more(*record)) deps_.events.done(key, Fact::staged_more);
    }
  });
}

bool Staging::has_staged_more(const JobRecord& record) const {
  const JobKey key = record.key();
  if (record.state != JobState::staging || !deps_.workers.is_working(key, WorkerTask::stage) ||
      deps_.events.step_of(key) == Step::end_staging)
    return false;
  const WorkerStatus status = deps_.workers.status(key, WorkerTask::stage);
  return status.phase == WorkerPhase::ready ||
         (status.phase == WorkerPhase::working && sharing_.leads(key));
}

// What others need of it is kept as soon as it is complete: it may fail for another item.
Status Staging::keep_complete(JobRecord& record, const WorkerStatus& status) {
  const std::vector<SharedItem> before = record.shared;
  Status kept = sharing_.staged(record, status, Sharing::Report::more);
  if (record.shared != before) deps_.table.save(record);
  return kept;
}

void Staging::take_report(JobRecord& record) {
  const JobKey key = record.key();
  if (record.state != JobState::staging) return;
  const WorkerStatus status = deps_.workers.status(key, WorkerTask::stage);
  if (!deps_.workers.is_working(key, WorkerTask::stage))
    return become_ready(record, status, Sharing::Report::last);
  if (status.phase == WorkerPhase::ready || status.phase == WorkerPhase::done)
    return become_ready(record, status, Sharing::Report::more);
  if (!keep_complete(record, status)) deps_.events.done(key, Fact::spoilt);
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
  if (step == Step::await_step) return "its first step on this node, whose memory it uses";
  if (step == Step::await_quota)
    return "room in its user's quota, in which what was kept for further jobs is being removed";
  return sharing_.waits_for(key);
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
