#include "daemon/root/jobs/jobs.hpp"

#include <algorithm>
#include <utility>

#include "common/text/glob_text.hpp"
#include "common/wire/status_file.hpp"
#include "daemon/root/basis/log.hpp"

namespace nodestage {
namespace {

// Of the caller's text: longer than any file name, and short enough for the worker's order.
constexpr std::size_t k_max_job_name = 1024;
// The message has room for them; the others come when these are gone.
constexpr std::size_t k_most_places = 100;
constexpr std::chrono::seconds k_detach_time{2};

Refused unknown_job() { return {RefusalReason::unknown_job, "the job is not known on this node"}; }

bool is_bounded(const Await& ask) {
  return ask.names.size() <= k_max_await_names &&
         std::all_of(ask.names.begin(), ask.names.end(),
                     [](const std::string& name) { return name.size() <= k_max_await_name_bytes; });
}

}  // namespace

void Jobs::settings_changed() {
  cache_.settings_changed();
  workers_.share_rates();
  staging_.start_queued();
  deps_.records.trim();
  held_.settings_changed();
  orphans_.watch();
}

std::optional<std::uint32_t> Jobs::owner(std::uint32_t job) const {
  const JobRecord* record = table_.find_live(job);
  if (record == nullptr) return {};
  return record->begin.uid;
}

std::optional<std::uint32_t> Jobs::owner_of_held(const Recover& ask) const {
  const auto keys = held_.find(ask);
  if (keys.empty()) return {};
  return table_.all().at(keys.front()).begin.uid;
}

Metrics Jobs::metrics() {
  workers_.count_work();
  Metrics metrics = views_.metrics(counters_);
  metrics.stuck_trees += deps_.trash.stuck();
  return metrics;
}

Message Jobs::begin(const Begin& begin) {
  const bool known = table_.find({begin.job, begin.restart}) != nullptr;
  Message answer = admit(begin);
  if (const auto* refused = std::get_if<Refused>(&answer); refused != nullptr && !known) {
    counters_.add_failure(Activity::stage, FailureCause::refused);
    log::warn(about(begin), "refused: {}", refused->what);
    outcomes_.report_refusal(begin, refused->what);
  }
  return answer;
}

Message Jobs::admit(const Begin& begin) {
  const JobKey key{begin.job, begin.restart};
  if (const JobRecord* known = table_.find(key)) {
    if (known->begin.uid == begin.uid && is_live(*known)) return Accepted{};
    return Refused{RefusalReason::busy, "this run of the job is already known on the node"};
  }
  if (may_stage(begin, deps_.config) == MayStage::no)
    return Refused{RefusalReason::not_permitted, pilot_refusal(begin)};
  auto record = new_record(begin);
  const Status free = make_way(key, record ? record->directory : "");
  if (!free) return Refused{RefusalReason::busy, free.error().what};
  if (!record) return Refused{RefusalReason::fault, record.error().what};
  return add(std::move(*record));
}

// Earlier runs of the job make way for a new one. Slurm lets every epilog finish before the next
// prolog, so an earlier run that is still here has lost its epilog. Its results are delivered
// beside the new run. A tree that could not be moved to the hold area would be removed with this
// run's directory.
Status Jobs::make_way(const JobKey& key, const std::string& directory) {
  while (JobRecord* earlier = table_.find_live(key.job)) {
    log::warn(about(*earlier), "a new run starts, but no epilog came");
    const bool was_ended = std::exchange(earlier->ended, true);
    ending_.move_to_hold(*earlier);
    if (!earlier->in_hold) {
      earlier->ended = was_ended;  // Its end is still to come.
      return Error{EBUSY, "an earlier run of the job is still here"};
    }
    if (!was_ended) done(earlier->key(), Fact::ended);
  }
  if (directory.empty()) return {};
  for (const auto& [other_key, other] : table_.all()) {
    if (other.in_hold || other.directory != directory) continue;
    JobRecord& record = *table_.find(other_key);
    ending_.move_to_hold(record);
    if (!record.in_hold) return Error{EBUSY, "results of an earlier run of the job are still here"};
  }
  return {};
}

Result<JobRecord> Jobs::new_record(const Begin& begin) const {
  if (begin.uid == 0)
    return Error{EPERM, "nodestage does not stage for root; submit as an ordinary user"};
  if (begin.gid == 0)
    return Error{EPERM, "nodestage does not stage for root's group, which is the job's (gid 0)"};
  if (begin.user.empty() || begin.user.find('/') != std::string::npos)
    return Error{EINVAL, "slurmd named no user"};
  if (begin.request.size() > k_max_request_bytes)
    return Error{E2BIG,
                 "the request is larger than " + std::to_string(k_max_request_bytes) + " bytes"};
  PatternFacts facts;
  facts.job = begin.job;
  facts.restart = begin.restart;
  facts.user = begin.user;
  JobRecord record;
  record.begin = begin;
  record.state = JobState::waiting_for_directory;
  record.times.begun = deps_.loop.wall_ms();
  record.begun_at = record.times.begun / 1000;
  TRY_ASSIGN(record.directory, expand_pattern(tmpdir_name_pattern(deps_.config), facts));
  // A list without this node is not valid.
  auto& nodes = record.begin.nodes;
  if (is_on_first_node(record) && std::find(nodes.begin(), nodes.end(), begin.node) == nodes.end())
    record.begin.first_node.clear();
  record.directory_is_ours = deps_.config.tmpdir.create != CreateDirectory::never;
  return record;
}

// The journal comes first: without an entry, the next daemon would leave the directory behind.
Message Jobs::add(JobRecord new_record) {
  const JobKey key = new_record.key();
  const auto added = table_.add(std::move(new_record));
  if (!added) return Refused{RefusalReason::fault, added.error().what};
  JobRecord& record = **added;
  const auto made = staging_.make_directory(record);
  if (!made) {
    table_.forget(key);
    return Refused{RefusalReason::fault, made.error().what};
  }
  record.directory_was_there = *made == Areas::Maker::another;
  if (record.directory_was_there && record.directory_is_ours)
    log::info(about(record), "{} was there: another program of the site has made it",
              deps_.areas.path_of(record.directory));
  images_.prepare(record);
  talk_.join(record);
  done(key, Fact::directory_made);
  return Accepted{};
}

Message Jobs::exited(const Exited& exited) {
  JobRecord* record = table_.find_live(exited.job);
  if (record == nullptr) return unknown_job();
  const bool batch = exited.step == k_slurm_batch_step;
  if (batch && record->batch_status) return Accepted{};  // it ends once
  if (batch) record->facts.batch = true;
  auto& status = batch ? record->batch_status : record->last_status;
  // A step is as its worst task. Many tasks that exit alike cause one write of the journal.
  const bool same_step = exited.step == std::exchange(record->last_step, exited.step);
  if (same_step && status.value_or(0) != 0) return Accepted{};
  if (status == exited.wait_status && (same_step || exited.wait_status == 0)) return Accepted{};
  status = exited.wait_status;
  table_.save(*record);
  if (batch) talk_.send_to_all_nodes(*record);
  return Accepted{};
}

Message Jobs::mounted(const ImagesMounted& mounted, std::vector<Fd> descriptors) {
  JobRecord* record = table_.find({mounted.job, mounted.restart});
  if (record == nullptr) return unknown_job();
  const Status taken = images_.mounted(*record, mounted.fault, std::move(descriptors));
  if (!taken) return Refused{RefusalReason::busy, taken.error().what};
  return Accepted{};
}

PlaceRow Jobs::place(const PlaceQuery& ask) {
  const JobRecord* live = table_.find_live(ask.job);
  const bool is_there = live != nullptr && ask.restart >= live->begin.restart;
  PlaceRow row{tmpdir_root(deps_.config), {}, Areas::hold_name(), Areas::places_of_waste(), {}};
  for (const pid_t pid : deps_.workers.pids()) row.workers.push_back(std::to_string(pid));
  if (is_there) row.directories.push_back(live->directory);
  for (const auto& [key, record] : table_.all()) {
    if (!record.ended && record.state != JobState::gone) continue;
    const std::string name = record.in_hold ? Areas::held_name(key) : record.directory;
    if (row.directories.size() < k_most_places && deps_.areas.is_covered(name))
      row.directories.push_back(name);
  }
  for (std::string& path : images_.leftovers(is_there ? live : nullptr, k_most_places))
    row.directories.push_back(std::move(path));
  // Whoever asks is about to detach what is mounted there.
  deps_.loop.after(k_detach_time, [this] { look_again(); });
  return row;
}

void Jobs::look_again() {
  deps_.trash.look_again();
  ending_.remove_again();
  images_.remove_again();
}

Ticket Jobs::wait(const Wait& wait, Reply reply) {
  JobRecord* record = table_.find_live(wait.job);
  if (record == nullptr)
    return answered(
        reply, Refused{RefusalReason::unknown_job,
                       "the staging daemon does not know this job: the prolog has not reached it"});
  if (wait.goes_on == k_looks || wait.goes_on == k_looked) {
    note_look(*record, wait);
    return answered(reply, Accepted{});
  }
  const JobKey key = record->key();
  learn(*record, wait);
  return waiting_.wait(key, wait, next_ticket_++, std::move(reply));
}

// A step here that only looks at the job starts or exits.
void Jobs::note_look(JobRecord& record, const Wait& wait) {
  const JobKey key = record.key();
  wait.goes_on == k_looks ? credits_.begin_look(key, wait.step) : credits_.end_look(key, wait.step);
  talk_.use_changed(record);
}

// Notes what a step says about its job.
void Jobs::learn(JobRecord& record, const Wait& wait) {
  JobFacts facts = record.facts;
  const bool was_known = facts.known;
  if (!was_known)
    facts = {true, wait.array_job, wait.array_task, wait.job_name.substr(0, k_max_job_name),
             facts.batch};
  if (wait.step == k_slurm_batch_step) facts.batch = true;
  const bool runs_on = wait.goes_on != 0 && record.times.run == 0;
  if (!runs_on && facts == record.facts) return;
  record.facts = std::move(facts);
  cache_.name_maker(record.key(), record.facts);
  if (runs_on) {
    record.may_have_run = true;
    record.times.run = deps_.loop.wall_ms();
  }
  table_.save(record);
  if (runs_on) talk_.use_changed(record);
  if (!was_known && may_need_step_names(record.begin.request)) {
    talk_.send_to_all_nodes(record);
    talk_.names_known(record.key());
  }
}

Ticket Jobs::await(const Await& ask, Reply reply) {
  if (!is_bounded(ask))
    return answered(reply, Refused{RefusalReason::malformed, "too many or too long names"});
  const JobRecord* record = table_.find_live(ask.job);
  if (record == nullptr) return answered(reply, unknown_job());
  return waiting_.await(record->key(), ask, next_ticket_++, std::move(reply));
}

Ticket Jobs::push(const Push& ask, Reply reply) {
  JobRecord* record = table_.find_live(ask.job);
  if (record == nullptr) return answered(reply, unknown_job());
  return pushes_.push(*record, ask, next_ticket_++, std::move(reply));
}

Ticket Jobs::end(const End& end, const Reply& reply) {
  const JobRecord* record = table_.find_live(end.job);
  // Where slurmctld requeues a job as it ends, it counts before it makes the epilog's credential,
  // so the end of run 0 can come as that of run 1.
  if (record != nullptr && end.restart < record->begin.restart) {
    log::warn(about(*record), "the end of run {} of the job has come late; run {} goes on",
              end.restart, record->begin.restart);
    record = nullptr;
  }
  if (record == nullptr) return answered(reply, Ended{EndOutcome::nothing, ""});
  return ending_.end(record->key(), end, next_ticket_++, reply);
}

Ticket Jobs::recover_held(const Recover& ask, const Reply& reply) {
  return held_.recover(ask, next_ticket_++, reply);
}

void Jobs::leave(Ticket ticket) {
  if (!held_.leave(ticket) && !waiting_.leave(ticket) && !pushes_.leave(ticket))
    ending_.leave(ticket);
}

void Jobs::take_note(const PeerNote& note, const std::string& address) {
  JobRecord* record = table_.find({note.job, note.restart});
  if (std::holds_alternative<RelayNote>(note.body)) {
    if (record != nullptr) relays_.take(*record, note, address);
    return;
  }
  if (record != nullptr) return talk_.take(*record, note);
  if (!outcomes_.answer(note) && std::holds_alternative<NodeNote>(note.body))
    talk_.keep_for_later(note);
}

void Jobs::decided(const JobKey& key) {
  JobRecord& record = *table_.find(key);
  if (record.verdict == Verdict::ready) {
    if (const auto since = table_.since(key))
      counters_.add_time(Phase::barrier, deps_.loop.now() - *since);
    credits_.may_run(record);
  } else if (record.cause.empty()) {
    counters_.add_failure(Activity::stage, FailureCause::other_node);
  }
  table_.save(record);
  talk_.send_to_all_nodes(record);
  waiting_.answer(key);
}

// Jobs: carrying on with the jobs of an earlier daemon, from the journal.

namespace {

WorkerTask task_of(JobState state) {
  return state == JobState::staging_out ? WorkerTask::stage_out : WorkerTask::stage;
}

}  // namespace

void Jobs::recover() {
  const std::vector<JobKey> keys = table_.load();
  cache_.load();
  // First all workers that live, so that every place that is taken is known before the next start.
  for (const JobKey& key : keys) take_over(*table_.find(key));
  for (const JobKey& key : keys) carry_on(*table_.find(key));
  // Removers and comparisons of the last daemon, too, before the same are started.
  deps_.workers.kill_orphaned_workers();
  cache_.loaded();
  remove_from_memory();
  staging_.start_queued();
  deps_.trash.sweep();
  orphans_.check();
  orphans_.watch();
}

// What no job has in memory any more. A job that is stopped at this moment removes it itself.
void Jobs::remove_from_memory() {
  for (const JobKey& key : deps_.areas.jobs_in_memory()) {
    const JobRecord* record = table_.find(key);
    if (record != nullptr && is_live(*record)) continue;
    if (const Status moved = deps_.areas.move_memory_to_trash(key); !moved)
      log::error("job {}: what it has in memory cannot be removed: {}", to_text(key),
                 moved.error().what);
  }
}

// Whether the name of the job's directory is that of a later run by now (make_way()).
bool Jobs::is_given_on(const JobRecord& record) const {
  const auto& all = table_.all();
  return std::any_of(all.upper_bound(record.key()), all.end(), [&record](const auto& item) {
    return item.second.directory == record.directory;
  });
}

void Jobs::take_over(JobRecord& record) {
  log::info(about(record), "carried on from the journal: {}", to_text(record.state));
  // The last daemon may have died between the move to the hold area and its note of it. After a
  // power loss the note can be there and the move not.
  const auto unmoved =
      deps_.areas.open_directory(record.directory, record.begin.uid, mounts_of(record));
  const auto moved = deps_.areas.open_held(record.key(), record.begin.uid);
  const bool is_known = unmoved && moved;
  if (is_known && *moved && !*unmoved) record.in_hold = true;
  if (is_known && *unmoved && !*moved && !is_given_on(record)) record.in_hold = false;
  orphans_.check_old(record);
  staging_.sharing().carry_on(record);
  if (task_of(record.state) == WorkerTask::stage)
    staging_.adopt(record);
  else if (ending_.adopt(record) && record.hold.since != 0)
    held_.carry_on_try(record);
  pushes_.adopt(record);
  relays_.adopt(record);
  images_.adopt(record);
  // It may have failed before, and outside the hold area the results would be lost.
  if (record.state == JobState::held) ending_.move_to_hold(record);
}

Left Jobs::left_of(const JobRecord& record) const {
  const WorkerTask task = task_of(record.state);
  if (workers_.is_working(record.key(), task)) return Left::running;
  const WorkerPhase phase = files_.status(record.key(), task).phase;
  return phase == WorkerPhase::done || phase == WorkerPhase::failed ? Left::exited : Left::nothing;
}

void Jobs::carry_on(JobRecord& record) {
  const Left left = left_of(record);
  talk_.join(record);
  credits_.carry_on(record);
  done(record.key(), known_of(record, left));
}

}  // namespace nodestage
