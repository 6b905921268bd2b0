#include "daemon/root/jobs/ending.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "common/talk/summary.hpp"
#include "common/text/human.hpp"
#include "daemon/root/basis/log.hpp"
#include "daemon/root/held/hold.hpp"
#include "daemon/root/held/output_lines.hpp"

namespace nodestage {
namespace {

constexpr const char* k_waited_long = "the epilog could wait no longer";
// For the job's output to take the lines about its results.
constexpr std::chrono::seconds k_telling_wait{10};
// Until what could not be moved to the trash is moved again.
constexpr std::chrono::seconds k_first_pause{2};
constexpr std::chrono::seconds k_pause{60};

bool is_empty(int directory_fd) {
  std::error_code fault;
  return std::filesystem::is_empty("/proc/self/fd/" + std::to_string(directory_fd), fault) &&
         !fault;
}

}  // namespace

Ticket Ending::end(const JobKey& key, const End& end, Ticket ticket, const Reply& reply) {
  JobRecord& record = *at_.table.find(key);
  // A node that is switched off after the epilog would deliver nothing more.
  std::uint64_t wait_s = can_be_switched_off(record, at_.config.hold)
                             ? at_.config.stageout.limit_s
                             : at_.config.stageout.epilog_wait_s;
  if (end.limit_s != 0) wait_s = std::min<std::uint64_t>(wait_s, end.limit_s);
  const auto timer =
      at_.loop.after(std::chrono::seconds(wait_s), [this, key] { go_on_in_background(key); });
  enders_[key].emplace(ticket, Ender{reply, timer});
  if (!record.ended) {
    record.ended = true;
    record.exit_code = end.exit_code;
    at_.table.save(record);
    ended(record);
  }
  const auto enders = enders_.find(key);
  return enders != enders_.end() && enders->second.count(ticket) > 0 ? ticket : 0;
}

bool Ending::leave(Ticket ticket) {
  for (auto& [key, enders] : enders_) {
    const auto ender = enders.find(ticket);
    if (ender == enders.end()) continue;
    at_.loop.cancel(ender->second.timer);
    enders.erase(ender);
    return true;
  }
  return false;
}

void Ending::ended(JobRecord& record) {
  at_.talk.tell_all_nodes(record);
  stop(record);
}

void Ending::stop(JobRecord& record) {
  const JobKey key = record.key();
  if (record.times.ended == 0) record.times.ended = at_.loop.wall_ms();
  if (record.cause.empty()) record.cause = "the job has ended";
  const bool is_under_way =
      at_.workers.is_working(key, WorkerTask::stage_out) || telling_.contains(key);
  if (!at_.staging.stop(record) && !is_under_way) return stage_out(record);
  at_.waiting.tell(key);
}

// Whether no step is known to have run or to have left anything. A step that waits for nothing may
// not have reached this daemon or the last one, so what it has made is looked for.
bool Ending::has_nothing(const JobRecord& record) const {
  if (record.begin.request.empty()) return true;
  if (record.may_have_run) return false;
  const auto tree = at_.files.directory(record);
  // EPERM: not yet given to the user, because a daemon died while it made the directory.
  return tree ? is_empty(tree->get()) : tree.error().code == ENOENT || tree.error().code == EPERM;
}

// A push that is under way gives way to the stage-out, which delivers what it has left. Staging and
// push report their ends each: the last of them goes on.
void Ending::stage_out(JobRecord& record) {
  if (at_.workers.is_working(record.key(), WorkerTask::stage))
    return at_.waiting.tell(record.key());
  if (at_.pushes.stop(record)) return at_.waiting.tell(record.key());
  record.cause.clear();
  if (has_nothing(record)) return finish(record);
  if (is_taken_away(record)) return lose_what_was_removed(record);
  if (late_.contains(record.key())) return hold(record, k_waited_long);
  if (at_.outcomes.is_lacking(record)) return at_.outcomes.await(record);
  start_stage_out(record);
}

// Whether nothing is left of the directory of a job that may have run: other programs of the site
// remove it, too.
bool Ending::is_taken_away(const JobRecord& record) const {
  const auto tree = at_.files.directory(record);
  if (tree || tree.error().code != ENOENT) return false;
  const auto held = at_.areas.open_held(record.key(), record.begin.uid);
  return held && !*held;
}

void Ending::lose_what_was_removed(JobRecord& record) {
  const std::string cause = at_.areas.path_of(record.directory) +
                            ": another program removed it before the results were copied back";
  if (at_.files.status(record.key(), WorkerTask::stage).outputs > 0)
    return lose(record, cause, Loss::removed);
  log::warn(about(record), "{}", cause);
  finish(record);
}

void Ending::start_stage_out(JobRecord& record) {
  ++record.stage_outs;
  if (const Status started = start_worker(record); !started) {
    at_.counters.add_failure(Activity::stage_out, FailureCause::start);
    return hold(record, "the stage-out could not be started: " + started.error().what);
  }
  at_.table.change(record, JobState::staging_out);
}

Status Ending::start_worker(JobRecord& record) {
  TRY_ASSIGN(const Fd directory, at_.files.directory(record));
  WorkerStart start = at_.workers.order(record, WorkerTask::stage_out);
  start.directory_fd = directory.get();
  return at_.workers.start(
      record, start, at_.workers.bounds(record, WorkerTask::stage_out),
      [this](const JobKey& key, const WorkerEnd& end) { worker_ended(key, end); });
}

bool Ending::adopt(JobRecord& record) {
  return at_.workers.adopt(
      record, WorkerTask::stage_out,
      [this](const JobKey& key, const WorkerEnd& end) { worker_ended(key, end); });
}

void Ending::worker_ended(const JobKey& key, const WorkerEnd& end) {
  JobRecord* record = at_.table.find(key);
  if (record == nullptr) return;
  at_.held.try_ended(*record);
  record->times.out_end = at_.loop.wall_ms();
  const WorkerStatus status = at_.files.status(key, WorkerTask::stage_out);
  log_items(*record, "stage-out: ", status, delivery_lines(status));
  if (status.phase == WorkerPhase::done) return delivered(*record, status);
  at_.counters.add_failure(Activity::stage_out, cause_of(end, status));
  hold(*record,
       status.phase == WorkerPhase::failed ? status.cause : "the stage-out process " + end.text);
}

void Ending::delivered(JobRecord& record, const WorkerStatus& status) {
  if (record.hold.since != 0) return at_.held.let_go(record, delivered_notice(record));
  const std::string missing = missing_notice(record, status);
  if (!missing.empty())
    at_.held.tell_user(record, missing, [](Notices::Told) {});
  else if (record.push_has_failed)
    at_.held.tell_user(record, delivered_notice(record), [](Notices::Told) {});
  tell_and_finish(record, status);
}

// Whoever waits for the job's end finds the lines in its output, unless that does not answer.
void Ending::tell_and_finish(JobRecord& record, const WorkerStatus& status) {
  const JobKey key = record.key();
  telling_[key] = at_.loop.after(k_telling_wait, [this, key] { told(key); });
  at_.output.append(record, result_lines(record, status), [this, key] { told(key); });
}

void Ending::told(const JobKey& key) {
  const auto node = telling_.extract(key);
  if (node.empty()) return;  // the patience was over first
  at_.loop.cancel(node.mapped());
  if (JobRecord* record = at_.table.find(key)) finish(*record);
}

// The epilog can wait no longer. The tree leaves its path, so that nothing of the job is left
// there; where it cannot, because the site has mounted it there, no worker stays in it.
void Ending::go_on_in_background(const JobKey& key) {
  JobRecord* record = at_.table.find(key);
  if (record == nullptr) return;
  if (at_.held.is_leaving(key)) return answer(key, {EndOutcome::lost, record->cause});
  if (telling_.contains(key)) return told(key);
  move_to_hold(*record);
  if (!record->in_hold && !record->directory_is_ours) {
    log::warn(about(*record), "the epilog can wait no longer, and the site unmounts the directory");
    bool is_worked_on = false;
    for (const auto task : {WorkerTask::stage, WorkerTask::push, WorkerTask::stage_out}) {
      is_worked_on = is_worked_on || at_.workers.is_working(key, task);
      at_.workers.kill(key, task);
    }
    if (!is_worked_on) return hold(*record, k_waited_long);
    late_.insert(key);
    return;
  }
  log::warn(about(*record), "the epilog can wait no longer; {} goes on in the background",
            to_text(record->state));
  answer(key, {EndOutcome::background, "results are still being copied and will be delivered"});
}

void Ending::move_to_hold(JobRecord& record) const {
  if (record.in_hold) return;
  const Status moved = at_.areas.move_to_hold(record.directory, record.key());
  if (!moved) {
    log::error(about(record), "cannot be moved to the hold area: {}", moved.error().what);
    const auto tree =
        at_.areas.open_directory(record.directory, record.begin.uid, mounts_of(record));
    if (!tree || *tree) return;  // else there is nothing to keep, or the last daemon has moved it
  }
  record.in_hold = true;
  at_.table.save(record);
}

void Ending::hold(JobRecord& record, const std::string& cause) {
  const JobKey key = record.key();
  move_to_hold(record);
  record.cause = printable(cause, Newlines::keep);
  if (!record.in_hold && !record.directory_is_ours) return lose(record, cause, Loss::mount);
  const WorkerStatus status = at_.files.status(key, WorkerTask::stage_out);
  if (record.hold.since == 0) at_.output.append(record, held_lines(record, status, cause));
  // What its user can mend needs no administrator; what has become worse does.
  const bool was_told = record.hold.since != 0 && !record.hold.waits_for_user;
  const bool is_users = waits_for_user(status);
  log::write(
      is_users || was_told ? log::Level::warn : log::Level::err, about(record),
      "the stage-out failed and the data are kept in " + at_.files.kept_in(record) + ": " + cause);
  if (record.hold.since == 0 && can_be_switched_off(record, at_.config.hold))
    log::warn(
        about(record),
        "Slurm can switch this node off (SuspendProgram); if it is a node of a cloud, it then "
        "loses what it holds (hold.keep_powered, hold.notify)");
  at_.held.hold(record);
  answer(key, {EndOutcome::held, record.cause});
  at_.waiting.tell(key);
  if (JobRecord* held = at_.table.find(key)) at_.held.look_after(*held);
}

// After its first line, a worker's cause says how to fetch what is kept, so the rest is dropped.
void Ending::lose(JobRecord& record, const std::string& cause, Loss loss) {
  const JobKey key = record.key();
  record.cause = printable(cause.substr(0, cause.find('\n')));
  const WorkerStatus status = at_.files.status(key, WorkerTask::stage_out);
  const std::string why = loss == Loss::mount
                              ? "the stage-out failed, and the data cannot be kept since the site "
                                "has mounted " +
                                    at_.areas.path_of(record.directory) + ": "
                              : "the results are lost: ";
  log::write(waits_for_user(status) ? log::Level::warn : log::Level::err, about(record),
             why + record.cause);
  record.hold.reasons = reasons_of(status, record.cause);
  at_.output.append(record, lost_lines(record, status, record.cause, loss));
  answer(key, {EndOutcome::lost, record.cause});
  at_.waiting.tell(key);
  at_.held.let_go(
      record, lost_notice(record, loss),
      loss == Loss::mount
          ? "the results could not be delivered, and were lost with the site's directory"
          : "the results were lost: another program had removed their directory");
}

void Ending::finish(JobRecord& record) {
  const JobKey key = record.key();
  const Status moved = move_to_trash(record);
  if (!moved) {
    record.cause = "its directory cannot be removed, which is tried again: " + moved.error().what;
    log::error(about(record), "{}", record.cause);
  }
  at_.table.change(record, JobState::gone);
  answer(key, {EndOutcome::done, ""});
  at_.waiting.tell(key);
  at_.events.gone(record, moved ? Remains::nothing : Remains::tree);
  if (!moved) remove_again_after(k_first_pause);
}

Status Ending::move_to_trash(const JobRecord& record) {
  const Begin& job = record.begin;
  if (record.in_hold) return at_.areas.move_held_to_trash(record.key(), job.uid, job.gid);
  if (record.directory_is_ours) return at_.areas.move_to_trash(record.directory, job.uid, job.gid);
  return {};
}

// Its user can have mounted something over the directory. A job that ends detaches that.
void Ending::remove_again() {
  if (again_) at_.loop.cancel(*again_);
  again_.reset();
  std::vector<JobKey> moved;
  bool any_left = false;
  for (const auto& [key, record] : at_.table.all()) {
    if (record.state != JobState::gone) continue;
    if (move_to_trash(record))
      moved.push_back(key);
    else
      any_left = true;
  }
  for (const JobKey& key : moved) {
    if (JobRecord* record = at_.table.find(key)) at_.events.gone(*record, Remains::nothing);
  }
  if (any_left) remove_again_after(k_pause);
}

void Ending::remove_again_after(std::chrono::seconds pause) {
  if (again_) at_.loop.cancel(*again_);
  again_ = at_.loop.after(pause, [this] {
    again_.reset();
    remove_again();
  });
}

void Ending::answer(const JobKey& key, const Ended& ended) {
  late_.erase(key);
  const auto node = enders_.extract(key);
  if (node.empty()) return;
  for (const auto& [ticket, ender] : node.mapped()) {
    at_.loop.cancel(ender.timer);
    ender.reply(ended);
  }
}

}  // namespace nodestage
