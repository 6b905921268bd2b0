// Flow: the life of a job on this node, as one table. An owner does a step and reports a fact
// (JobEvents); the first row for that fact whose condition holds has the next step. A daemon that
// starts reads the fact from what the last one has left (known_of()) and goes on from there by
// the same table. Nothing here does anything: every function depends on its arguments only.
#pragma once

#include "common/reflection.hpp"
#include "daemon/root/basis/areas.hpp"
#include "daemon/root/basis/job.hpp"

namespace nodestage {

// The latest that is known of a job.
enum class Fact {
  under_way,  // its last step has started, and the owner of that reports next
  // Its start:
  begun,           // it is in the table and in the journal
  directory_made,  // by the daemon, unless the site makes it
  unstaged,        // its directory is there, and its data are not there, or do not count
  queued,          // its state is `queued`
  named,           // a step has reported the job's name and the IDs of its array
  unsettled,       // a source that it shares was just changed
  settled,         // the same, and it has had its time
  led,             // others stage what it shares, or a part of that
  to_keep,         // the keeper shall stage a part of what it shares
  identified,      // it is decided what it does with its shared items
  linked,          // the same, and it only links to what is there
  step_found,      // its first step on this node is there, or will not come
  step_lost,       // that had ended before a worker could join it
  turn,            // it has one of the places for staging
  over_quota,      // its staging met its user's quota, and what is kept and not in use goes
  staged_more,     // its worker reports that more is complete
  fresh,           // all is complete, and some was published within this tick of the clock
  spoilt,          // what its worker stages does not count
  staging_exited,  // an earlier daemon has not read the report of its staging worker
  ready,           // its data are there, and the journal does not know that yet
  failed,          // its staging has failed, and the journal does not know that yet
  was_decided,     // an earlier daemon has noted that it is ready or failed
  // Its end:
  ended,             // its epilog has come, or it was found that none will
  stopped,           // its staging and its pushes were stopped; each worker's exit reports it again
  outcome_known,     // the first node has said how it ended, or will not say it
  stage_out_exited,  // an earlier daemon has not read the report of its stage-out worker
  delivered,         // its results are in their targets
  undelivered,       // its results are not; the record's `cause` says why
  reported,          // its output has the lines about its results, or does not answer
  kept,              // its results are in the hold area, or stay where they were
  unkept,            // its results cannot be kept: the site unmounts its directory
  held,              // its state is `held`
  retry_due,         // its held results are delivered now
  released,          // nothing of it needs to be kept
  removed,           // its tree is in the trash
  remains,           // its tree cannot be moved there yet; `removed` follows
};

constexpr EnumRange<Fact> range_of(Fact) { return {Fact::under_way, Fact::remains}; }

// What an owner starts.
enum class Step {
  wait,  // nothing: an owner reports later
  make_directory,
  await_directory,  // the site makes it
  enqueue,
  await_mounts,   // wait for the prolog's hook, which mounts its images
  await_names,    // wait for what a step reports, on which its sources depend
  identify,       // find out what it does with its shared items
  await_settled,  // let a source that was just changed stay as it is for a while
  await_leader,   // wait for what others stage
  await_step,     // wait for its first step on this node, whose memory it uses
  await_turn,     // wait for one of the places for staging
  keep,           // have the keeper stage what it shares
  stage,
  await_quota,   // wait until what is removed leaves room in its user's quota
  take_report,   // give others what is complete, and look whether the job is ready
  await_tick,    // of the clock by which changes are told
  end_staging,   // kill the worker, whose exit reports `unstaged`
  read_staging,  // read the report of the staging worker
  let_run,       // note that the job is ready
  fail,          // note that the job has failed
  watch,         // start the intervals of its outputs
  stop,          // end its staging and its pushes
  ask_outcome,   // ask the first node how the job ended
  stage_out,
  read_stage_out,  // read the report of the stage-out worker
  report,          // write to its user and to its output that its results are delivered
  give_up,         // leave the results undelivered, because the epilog can wait no longer
  move_to_hold,
  hold,          // note that the results are held, and answer the epilog
  look_after,    // try held results again, measure them, warn of their expiry
  release,       // write to the user that held results are delivered
  lose_mount,    // write to the user what is lost with the site's mount
  lose_removed,  // write to the user what another program has removed
  finish,        // move the tree to the trash, note that the job is gone, and answer the epilog
  forget,        // remove the record
};

constexpr EnumRange<Step> range_of(Step) { return {Step::wait, Step::forget}; }

// What is left of the directory of a job that has ended.
enum class Tree {
  there,
  untouched,   // nothing needs to be delivered: no step of the job can have left anything
  taken_away,  // other programs of the site remove it, too
};

struct Facts {
  Fact last = Fact::under_way;
  // Looked up when the job is stopped:
  bool is_working = false;  // a worker of its staging or of its pushes
  Tree tree = Tree::there;
  bool is_late = false;        // the epilog waits no longer, and the site unmounts the directory
  bool lacks_outcome = false;  // another node knows how the job ended
  // Looked up while the job starts:
  bool lacks_mounts = false;  // it is not known whether its images are mounted
  bool lacks_names = false;   // its sources may depend on what no step has reported yet
  bool may_share = false;     // it may have shared items
  bool is_undecided = false;  // what it does with them
  bool is_in_memory = false;  // some of its items may be
};

// A condition of a row.
enum class Condition {
  always,
  site_makes_it,  // the job's directory
  wants_nothing,  // but the directory
  unmounted,      // Facts::lacks_mounts
  unnamed,        // Facts::lacks_names, and so on
  shares,
  undecided,
  in_memory,
  works,  // Facts::is_working, and so on
  untouched,
  taken_away,
  late,
  lacking,
  was_held,
};

struct FlowRow {
  Fact last;
  Condition when;
  Step next;
};

// clang-format off
// What is not in it waits, and so does a start of a job that has ended.
inline constexpr FlowRow k_flow[] = {
    // The start of a job.
    {Fact::begun,            Condition::always,         Step::make_directory},
    {Fact::directory_made,   Condition::site_makes_it,  Step::await_directory},
    {Fact::directory_made,   Condition::wants_nothing,  Step::let_run},
    {Fact::directory_made,   Condition::always,         Step::enqueue},
    {Fact::unstaged,         Condition::wants_nothing,  Step::let_run},
    {Fact::unstaged,         Condition::always,         Step::enqueue},
    {Fact::queued,           Condition::unmounted,      Step::await_mounts},
    {Fact::queued,           Condition::unnamed,        Step::await_names},
    {Fact::queued,           Condition::shares,         Step::identify},
    {Fact::queued,           Condition::in_memory,      Step::await_step},
    {Fact::queued,           Condition::always,         Step::await_turn},
    {Fact::named,            Condition::shares,         Step::identify},
    {Fact::named,            Condition::in_memory,      Step::await_step},
    {Fact::named,            Condition::always,         Step::await_turn},
    {Fact::unsettled,        Condition::always,         Step::await_settled},
    {Fact::settled,          Condition::always,         Step::identify},
    {Fact::led,              Condition::always,         Step::await_leader},
    {Fact::to_keep,          Condition::always,         Step::await_turn},
    {Fact::identified,       Condition::in_memory,      Step::await_step},
    {Fact::identified,       Condition::always,         Step::await_turn},
    {Fact::linked,           Condition::always,         Step::stage},
    {Fact::step_found,       Condition::always,         Step::await_turn},
    {Fact::step_lost,        Condition::always,         Step::await_step},
    {Fact::turn,             Condition::undecided,      Step::keep},
    {Fact::turn,             Condition::always,         Step::stage},
    {Fact::over_quota,       Condition::always,         Step::await_quota},
    {Fact::staged_more,      Condition::always,         Step::take_report},
    {Fact::fresh,            Condition::always,         Step::await_tick},
    {Fact::spoilt,           Condition::always,         Step::end_staging},
    {Fact::staging_exited,   Condition::always,         Step::read_staging},
    {Fact::ready,            Condition::always,         Step::let_run},
    {Fact::failed,           Condition::always,         Step::fail},
    {Fact::was_decided,      Condition::always,         Step::watch},
    // The walk of a job that has ended, from top to bottom.
    {Fact::ended,            Condition::always,         Step::stop},
    {Fact::stopped,          Condition::works,          Step::wait},
    {Fact::stopped,          Condition::untouched,      Step::finish},
    {Fact::stopped,          Condition::taken_away,     Step::lose_removed},
    {Fact::stopped,          Condition::late,           Step::give_up},
    {Fact::stopped,          Condition::lacking,        Step::ask_outcome},
    {Fact::stopped,          Condition::always,         Step::stage_out},
    {Fact::outcome_known,    Condition::always,         Step::stage_out},
    {Fact::stage_out_exited, Condition::always,         Step::read_stage_out},
    {Fact::delivered,        Condition::was_held,       Step::release},
    {Fact::delivered,        Condition::always,         Step::report},
    {Fact::reported,         Condition::always,         Step::finish},
    {Fact::undelivered,      Condition::always,         Step::move_to_hold},
    {Fact::unkept,           Condition::always,         Step::lose_mount},
    {Fact::kept,             Condition::always,         Step::hold},
    {Fact::held,             Condition::always,         Step::look_after},
    {Fact::retry_due,        Condition::always,         Step::stage_out},
    {Fact::released,         Condition::always,         Step::finish},
    {Fact::removed,          Condition::always,         Step::forget},
};
// clang-format on

// `wait` where no row holds.
[[nodiscard]] Step next_step(const JobRecord& record, const Facts& facts);

// What the worker of a job left behind that is carried on from the journal: the one that stages
// out, if the job's state is staging_out, or else the one that stages.
enum class Left {
  nothing,
  running,  // it lives
  exited,   // its status file says how its task ended
};

// The latest that is known of a job which the last daemon had.
[[nodiscard]] Fact known_of(const JobRecord& record, Left left);

// JobEvents: what the owners of a job's parts report. Jobs implements it, looks the next step up in
// the table, and starts it. A call may forget the job: it has the job's key, it comes last, and the
// caller does not use the job's record afterwards.
class JobEvents {
 public:
  // A step is done, or something has come that the table has rows for.
  virtual void done(const JobKey& key, Fact fact) = 0;
  // It was decided for all nodes whether the job runs; the journal does not know it yet.
  virtual void decided(const JobKey& key) = 0;
  // The step that was started last; `wait`: none by this daemon.
  [[nodiscard]] virtual Step step_of(const JobKey& key) const = 0;

 protected:
  ~JobEvents() = default;
};

}  // namespace nodestage
