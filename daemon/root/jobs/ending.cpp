#include "daemon/root/jobs/ending.hpp"

#include <algorithm>

#include "common/talk/summary.hpp"
#include "common/text/human.hpp"
#include "daemon/root/basis/log.hpp"

namespace nodestage {
namespace {

constexpr const char* k_waited_long = "the epilog could wait no longer";
// More than a worker whose time is over and whose exit is awaited can take.
constexpr std::uint64_t k_answer_margin_s = 60;
// For the job's output to take the lines about its results.
constexpr std::chrono::seconds k_reporting_wait{10};
// Until what could not be moved to the trash is moved again.
constexpr std::chrono::seconds k_first_retry{2};
constexpr std::chrono::seconds k_end_pause{60};

}  // namespace

Ticket Ending::end(const JobKey& key, const End& end, Ticket ticket, const Reply& reply) {
  JobRecord& record = *deps_.table.find(key);
  // A node that is switched off after the epilog would deliver nothing more, so the epilog waits
  // for the end of the stage-out there, whatever that is.
  std::uint64_t wait_s =
      can_be_switched_off(record)
          ? deps_.config.stageout.limit_s + deps_.config.worker.kill_wait_s + k_answer_margin_s
          : epilog_wait_of(deps_.config);
  if (end.limit_s != 0) wait_s = std::min<std::uint64_t>(wait_s, end.limit_s);
  const auto timer =
      deps_.loop.after(std::chrono::seconds(wait_s), [this, key] { go_on_in_background(key); });
  enders_[key].emplace(ticket, Ender{reply, timer});
  if (!record.ended) {
    record.ended = true;
    record.exit_code = end.exit_code;
    deps_.table.save(record);
    deps_.events.done(key, Fact::ended);
  }
  const auto enders = enders_.find(key);
  return enders != enders_.end() && enders->second.count(ticket) > 0 ? ticket : 0;
}

bool Ending::leave(Ticket ticket) {
  for (auto& [key, enders] : enders_) {
    const auto ender = enders.find(ticket);
    if (ender == enders.end()) continue;
    deps_.loop.cancel(ender->second.timer);
    enders.erase(ender);
    return true;
  }
  return false;
}

void Ending::answer(const JobKey& key, const Ended& ended) {
  late_.erase(key);
  const auto node = enders_.extract(key);
  if (node.empty()) return;
  for (const auto& [ticket, ender] : node.mapped()) {
    deps_.loop.cancel(ender.timer);
    ender.reply(ended);
  }
}

// A step that waits for nothing may not have reached this daemon or the last one, so what it has
// made is looked for.
Tree Ending::tree_of(const JobRecord& record) const {
  if (record.begin.request.empty()) return Tree::untouched;
  const auto tree = deps_.files.directory(record);
  if (tree) {
    const bool is_untouched = !record.may_have_run &&
                              deps_.areas.is_empty(record.directory, tree->get(), record.begin.uid);
    return is_untouched ? Tree::untouched : Tree::there;
  }
  // EPERM: not yet given to the user, because a daemon died while it made the directory.
  const int code = tree.error().code;
  if (!record.may_have_run && (code == ENOENT || code == EPERM)) return Tree::untouched;
  if (code != ENOENT) return Tree::there;
  const auto held = deps_.areas.open_held(record.key(), record.begin.uid);
  return held && !*held ? Tree::taken_away : Tree::there;
}

void Ending::stage_out(JobRecord& record) {
  ++record.stage_outs;
  if (const Status started = start_worker(record); !started) {
    deps_.counters.add_failure(Activity::stage_out, FailureCause::start);
    return fail(record, "the stage-out could not be started: " + started.error().what);
  }
  deps_.table.change(record, JobState::staging_out);
}

void Ending::fail(JobRecord& record, const std::string& cause) {
  record.cause = printable(cause, Newlines::keep);
  deps_.events.done(record.key(), Fact::undelivered);
}

void Ending::give_up(JobRecord& record) { fail(record, k_waited_long); }

Status Ending::start_worker(JobRecord& record) {
  TRY_ASSIGN(const Fd directory, deps_.files.directory(record));
  WorkerStart start = deps_.workers.order(record, WorkerTask::stage_out);
  start.directory_fd = directory.get();
  return deps_.workers.start(
      record, start, deps_.workers.bounds(record, WorkerTask::stage_out),
      [this](const JobKey& key, const WorkerEnd& end) { worker_ended(key, end); });
}

bool Ending::adopt(JobRecord& record) {
  return deps_.workers.adopt(
      record, WorkerTask::stage_out,
      [this](const JobKey& key, const WorkerEnd& end) { worker_ended(key, end); });
}

void Ending::worker_ended(const JobKey& key, const WorkerEnd& end) {
  JobRecord* record = deps_.table.find(key);
  if (record == nullptr) return;
  deps_.held.try_ended(*record);
  record->times.out_end = deps_.loop.wall_ms();
  const WorkerStatus status = deps_.files.status(key, WorkerTask::stage_out);
  log_items(*record, "stage-out: ", status, delivery_lines(status));
  if (status.phase == WorkerPhase::done) return deps_.events.done(key, Fact::delivered);
  deps_.counters.add_failure(Activity::stage_out, cause_of(end, status));
  fail(*record,
       status.phase == WorkerPhase::failed ? status.cause : "the stage-out process " + end.text);
}

// After its results, the job's output hears of what was not staged after the start.
void Ending::append(const JobRecord& record, std::vector<std::string> lines,
                    const std::function<void()>& on_done) const {
  const JobKey key = record.key();
  const std::vector<std::string> late = late_lines(
      record, deps_.files.status(key, WorkerTask::stage), deps_.staging.async_fault(key));
  lines.insert(lines.end(), late.begin(), late.end());
  deps_.output.append(record, lines, on_done);
}

// Whoever waits for the job's end finds the lines in its output, unless that does not answer.
void Ending::report(JobRecord& record) {
  const JobKey key = record.key();
  const WorkerStatus status = deps_.files.status(key, WorkerTask::stage_out);
  const std::string missing = missing_notice(record, status);
  if (!missing.empty())
    deps_.held.write_notice(record, missing, [](Notices::Written) {});
  else if (record.push_has_failed)
    deps_.held.write_notice(record, delivered_notice(record), [](Notices::Written) {});
  reporting_[key] = deps_.loop.after(k_reporting_wait, [this, key] { reported(key); });
  append(record, result_lines(record, status), [this, key] { reported(key); });
}

void Ending::reported(const JobKey& key) {
  const auto node = reporting_.extract(key);
  if (node.empty()) return;  // the patience was over first
  deps_.loop.cancel(node.mapped());
  deps_.events.done(key, Fact::reported);
}

// The epilog can wait no longer. The tree leaves its path, so that nothing of the job is left
// there; where it cannot, because the site has mounted it there, no worker stays in it.
void Ending::go_on_in_background(const JobKey& key) {
  JobRecord* record = deps_.table.find(key);
  if (record == nullptr) return;
  if (deps_.held.is_leaving(key)) return answer(key, {EndOutcome::lost, record->cause});
  if (reporting_.contains(key)) return reported(key);
  move_to_hold(*record);
  if (!record->in_hold && !record->directory_is_ours) {
    log::warn(about(*record), "the epilog can wait no longer, and the site unmounts the directory");
    bool is_worked_on = false;
    for (const auto task : {WorkerTask::stage, WorkerTask::push, WorkerTask::stage_out}) {
      is_worked_on = is_worked_on || deps_.workers.is_working(key, task);
      deps_.workers.kill(key, task);
    }
    if (!is_worked_on) return give_up(*record);
    late_.insert(key);
    return;
  }
  log::warn(about(*record), "the epilog can wait no longer; {} goes on in the background",
            to_text(record->state));
  answer(key, {EndOutcome::background, "results are still being copied and will be delivered"});
}

void Ending::move_to_hold(JobRecord& record) const {
  if (record.in_hold) return;
  const Status moved = deps_.areas.move_to_hold(record.directory, record.key(), record.begin.uid);
  if (!moved) {
    log::error(about(record), "cannot be moved to the hold area: {}", moved.error().what);
    const auto tree =
        deps_.areas.open_directory(record.directory, record.begin.uid, mounts_of(record));
    if (!tree || *tree) return;  // else there is nothing to keep, or the last daemon has moved it
  }
  record.in_hold = true;
  deps_.table.save(record);
}

void Ending::keep(JobRecord& record) {
  const JobKey key = record.key();
  move_to_hold(record);
  if (!record.in_hold && !record.directory_is_ours) return deps_.events.done(key, Fact::unkept);
  const WorkerStatus status = deps_.files.status(key, WorkerTask::stage_out);
  if (record.hold.since == 0) append(record, held_lines(record, status, record.cause));
  // What its user can mend needs no administrator; what has become worse does.
  const bool was_reported = record.hold.since != 0 && !record.hold.waits_for_user;
  const bool is_users = waits_for_user(status);
  log::write(is_users || was_reported ? log::Level::warn : log::Level::err, about(record),
             "the stage-out failed and the data are kept in " + deps_.files.kept_in(record) + ": " +
                 record.cause);
  if (record.hold.since == 0 && can_be_switched_off(record))
    log::warn(
        about(record),
        "Slurm can switch this node off (SuspendProgram); if it is a node of a cloud, it then "
        "loses what it holds");
  deps_.events.done(key, Fact::kept);
}

// After its first line, a worker's cause says how to fetch what is kept, so the rest is dropped.
void Ending::lose(JobRecord& record, Loss loss) {
  const JobKey key = record.key();
  record.cause = printable(record.cause.substr(0, record.cause.find('\n')));
  const WorkerStatus status = deps_.files.status(key, WorkerTask::stage_out);
  const std::string why = loss == Loss::mount
                              ? "the stage-out failed, and the data cannot be kept since the site "
                                "has mounted " +
                                    deps_.areas.path_of(record.directory) + ": "
                              : "the results are lost: ";
  log::write(waits_for_user(status) ? log::Level::warn : log::Level::err, about(record),
             why + record.cause);
  record.hold.reasons = reasons_of(status, record.cause);
  append(record, lost_lines(record, status, record.cause, loss));
  answer(key, {EndOutcome::lost, record.cause});
}

bool Ending::lose_what_was_removed(JobRecord& record) {
  const std::string cause = deps_.areas.path_of(record.directory) +
                            ": another program removed it before the results were copied back";
  if (deps_.files.status(record.key(), WorkerTask::stage).outputs == 0) {
    log::warn(about(record), "{}", cause);
    return false;
  }
  record.cause = cause;
  lose(record, Loss::removed);
  return true;
}

void Ending::finish(JobRecord& record) {
  const JobKey key = record.key();
  const Status moved = move_to_trash(record);
  if (!moved) {
    record.cause = "its directory cannot be removed, which is tried again: " + moved.error().what;
    log::error(about(record), "{}", record.cause);
    remove_again_after(k_first_retry);
  }
  deps_.table.change(record, JobState::gone);
  answer(key, {EndOutcome::done, ""});
  deps_.events.done(key, moved ? Fact::removed : Fact::remains);
}

Status Ending::move_to_trash(const JobRecord& record) {
  const Begin& job = record.begin;
  if (record.in_hold) return deps_.areas.move_held_to_trash(record.key(), job.uid, job.gid);
  if (record.directory_is_ours)
    return deps_.areas.move_to_trash(record.directory, job.uid, job.gid);
  return {};
}

// Its user can have mounted something over the directory. A job that ends detaches that.
void Ending::remove_again() {
  deps_.loop.cancel(again_);
  std::vector<JobKey> moved;
  bool any_left = false;
  for (const auto& [key, record] : deps_.table.all()) {
    if (record.state != JobState::gone) continue;
    if (move_to_trash(record))
      moved.push_back(key);
    else
      any_left = true;
  }
  for (const JobKey& key : moved) deps_.events.done(key, Fact::removed);
  if (any_left) remove_again_after(k_end_pause);
}

void Ending::remove_again_after(std::chrono::seconds pause) {
  deps_.loop.cancel(again_);
  again_ = deps_.loop.after(pause, [this] {
    again_.reset();
    remove_again();
  });
}

}  // namespace nodestage
