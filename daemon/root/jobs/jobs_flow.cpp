// Jobs: the life of each job. Owners report facts, flow.hpp has the step that follows, and the
// owner of that starts it.

#include "daemon/root/basis/log.hpp"
#include "daemon/root/held/hold.hpp"
#include "daemon/root/jobs/jobs.hpp"

namespace nodestage {

// What an owner reports while it starts a step is taken when it has returned, so that no step runs
// inside another one of the same job, and none uses a record that is forgotten meanwhile.
void Jobs::done(const JobKey& reported, Fact fact) {
  const JobKey key = reported;
  if (table_.find(key) == nullptr) return;
  // Its user is being informed that the results are lost; nothing is delivered beside that.
  if (fact == Fact::outcome_known && held_.is_leaving(key)) return;
  flows_[key].fact = fact;
  if (!moving_.insert(key).second) return;
  while (JobRecord* record = table_.find(key)) {
    const Facts facts = facts_of(*record);
    const Step step = next_step(*record, facts);
    if (step == Step::wait) break;
    if (facts.last == Fact::stopped) {
      record->cause.clear();
      staging_.release_memory(*record);
    }
    flows_[key] = {Fact::under_way, step};
    start(step, *record);
    waiting_.answer(key);
  }
  moving_.erase(key);
}

Step Jobs::step_of(const JobKey& key) const {
  const auto flow = flows_.find(key);
  return flow == flows_.end() ? Step::wait : flow->second.step;
}

Facts Jobs::facts_of(const JobRecord& record) const {
  const JobKey key = record.key();
  const auto flow = flows_.find(key);
  Facts facts;
  facts.last = flow == flows_.end() ? Fact::under_way : flow->second.fact;
  if (facts.last < Fact::ended) {
    facts.lacks_mounts = Images::is_awaited(record);
    facts.lacks_names = may_need_step_names(record.begin.request) && !record.facts.known;
    facts.may_share = staging_.sharing().concerns(record);
    facts.is_undecided = staging_.sharing().is_undecided(key);
    facts.is_in_memory = may_be_in_memory(record.begin.request);
  }
  if (facts.last != Fact::stopped) return facts;
  facts.is_working =
      workers_.is_working(key, WorkerTask::stage) || workers_.is_working(key, WorkerTask::push);
  facts.tree = ending_.tree_of(record);
  facts.is_late = ending_.is_late(key);
  facts.lacks_outcome = outcomes_.is_lacking(record);
  return facts;
}

void Jobs::start(Step step, JobRecord& record) {
  const JobKey key = record.key();
  switch (step) {
    case Step::wait:
      return;
    case Step::make_directory:
      return make_directory(record);
    case Step::await_directory:
      return staging_.await_directory(record);
    case Step::enqueue:
      return staging_.enqueue(record);
    case Step::identify:
      return staging_.sharing().decide(record);
    case Step::await_mounts:
      return images_.await(record);
    case Step::await_names:
      return;  // learn(), or a note of the first node
    case Step::await_settled:
      return staging_.sharing().await_settled(record);
    case Step::await_leader:
      return staging_.await_leader(record);
    case Step::await_step:
      return staging_.await_step(record);
    case Step::await_turn:
      return staging_.await_turn(record);
    case Step::keep:
      return staging_.keep(record);
    case Step::stage:
      return staging_.stage(record);
    case Step::await_quota:
      return staging_.await_quota(record);
    case Step::take_report:
      return staging_.take_report(record);
    case Step::await_tick:
      return staging_.await_tick(key);
    case Step::end_staging:
      return workers_.kill(key, WorkerTask::stage);
    case Step::read_staging:
      return staging_.read_staging(record);
    case Step::let_run:
      return let_run(record);
    case Step::fail:
      table_.save(record);
      return talk_.state_changed(record);
    case Step::watch:
      return watch(record);
    case Step::stop:
      return stop(record);
    case Step::ask_outcome:
      return outcomes_.await(record);
    case Step::stage_out:
      return ending_.stage_out(record);
    case Step::read_stage_out:
      return ending_.worker_ended(key, {});
    case Step::report:
      return ending_.report(record);
    case Step::give_up:
      return ending_.give_up(record);
    case Step::move_to_hold:
      return ending_.keep(record);
    case Step::hold:
      held_.hold(record);
      return ending_.answer(key, {EndOutcome::held, record.cause});
    case Step::look_after:
      return held_.look_after(record);
    case Step::release:
      return held_.release(record, delivered_notice(record));
    case Step::lose_mount:
      ending_.lose(record, Loss::mount);
      return held_.release(
          record, lost_notice(record, Loss::mount),
          "the results could not be delivered, and were lost with the site's directory");
    case Step::lose_removed:
      if (!ending_.lose_what_was_removed(record)) return done(key, Fact::released);
      return held_.release(record, lost_notice(record, Loss::removed),
                           "the results were lost: another program had removed their directory");
    case Step::finish:
      if (record.hold.since != 0 && record.state != JobState::gone)
        output_.append(
            record, released_lines(files_.status(key, WorkerTask::stage_out), held_.parting(key)));
      ending_.finish(record);
      views_.keep_report(record);
      held_.forget(record);
      return staging_.start_queued();
    case Step::forget:
      return forget(record);
  }
}

// The next daemon finds a directory that this one has made.
void Jobs::make_directory(JobRecord& record) {
  const auto made = staging_.make_directory(record);
  if (!made) return staging_.fail(record, FailureCause::directory, made.error());
  done(record.key(), Fact::directory_made);
}

// With several nodes the job may run when all are ready: decided().
void Jobs::let_run(JobRecord& record) {
  table_.set_state(record, JobState::ready);
  if (!spans_nodes(record) || deps_.peers.off()) credits_.may_run(record);
  table_.save(record);
  // Otherwise the next daemon would stage again what the job works on by then.
  if (const auto why = table_.unsaved(record.key()))
    return staging_.fail(record, FailureCause::journal,
                         {0,
                          "nodestaged cannot note that the data are ready: its journal on this "
                          "node cannot be written: " +
                              *why,
                          "Tell your administrators."});
  pushes_.watch(record);
  talk_.state_changed(record);
}

void Jobs::watch(JobRecord& record) {
  const JobKey key = record.key();
  pushes_.watch(record);
  // Its worker has ended, unseen, and others would wait for what it staged for them.
  if (staging_.sharing().leads(key) && !workers_.is_working(key, WorkerTask::stage))
    staging_.worker_ended(key, {WorkerEnd::Kind::ended, "ended"});
}

// A push that is under way gives way to the stage-out, which delivers what it has left. The job
// goes on when all its workers are gone.
void Jobs::stop(JobRecord& record) {
  if (record.times.ended == 0) record.times.ended = deps_.loop.wall_ms();
  if (record.cause.empty()) record.cause = "the job has ended";
  talk_.send_to_all_nodes(record);
  staging_.stop(record);
  images_.stop(record);
  pushes_.stop(record);
  done(record.key(), Fact::stopped);
}

void Jobs::forget(JobRecord& record) {
  const JobKey key = record.key();
  outcomes_.keep(record);
  deps_.areas.remove_status(key);
  credits_.forget(key);
  images_.forget(key);
  staging_.forget(key);
  pushes_.forget(key);
  relays_.forget(key);
  talk_.forget(key);
  waiting_.forget(key);
  views_.forget(key);
  flows_.erase(key);
  table_.forget(key);
  deps_.trash.sweep();
}

}  // namespace nodestage
