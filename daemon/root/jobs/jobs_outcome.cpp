// How a job of several nodes ended is known on its first node and needed on all (`when=` of
// --stage-out); and notes of jobs that are not here, not yet or not any more.
#include <algorithm>
#include <utility>

#include "common/text/human.hpp"
#include "daemon/root/basis/log.hpp"
#include "daemon/root/jobs/jobs.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::seconds k_ask_again{1};
// The first node's prolog may be the last.
constexpr std::chrono::seconds k_early_notes_age{300};
constexpr std::size_t k_max_early_bytes = 16 << 20;
// Beyond the time that the others ask.
constexpr std::chrono::seconds k_outcome_age{60};

}  // namespace

JobNote Jobs::job_note(const Job& job) {
  const JobRecord& record = job.record;
  JobNote note;
  note.verdict = record.verdict;
  note.text = job.talk.barrier ? job.talk.barrier->text() : record.verdict_text;
  note.text.resize(std::min(note.text.size(), k_max_note_text_bytes));
  note.facts = record.facts;
  note.outcome_known = knows_outcome(record);
  note.status = record.batch_status;
  if (!note.status && !record.facts.batch) note.status = record.last_status;
  return note;
}

// The batch script has ended, or the job has.
void Jobs::tell_outcome(Job& job) {
  if (is_shared(job.record) && is_on_first_node(job.record)) tell_all_nodes(job);
}

// The job is about to be forgotten here, but another node may still ask.
void Jobs::keep_outcome(const Job& job) {
  if (!is_shared(job.record) || !is_on_first_node(job.record)) return;
  const JobKey key = job.record.key();
  outcomes_[key] = {job_note(job), job.record.begin.node, job.talk.members};
  at_.loop.after(k_outcome_age + std::chrono::seconds(2 * at_.config.peer.outcome_wait_s),
                 [this, key] { outcomes_.erase(key); });
}

// A note about a job that is not here: it asks for the outcome, or has come before the prolog.
void Jobs::answer_late(const PeerNote& note) {
  const JobKey key{note.job, note.restart};
  const auto* state = std::get_if<NodeNote>(&note.body);
  if (state == nullptr) return;
  const auto found = outcomes_.find(key);
  if (found == outcomes_.end()) return keep_for_later(note);
  const Outcome& outcome = found->second;
  if (state->ended == 0 || outcome.members.count(note.from) == 0) return;
  at_.peers.send({{note.from}, outcome.node, key.job, key.restart, 0, outcome.note},
                 [](const std::string&, const PeerFault&) {});
}

// The newest of each node, in bounds: what nodestage-peer says is root's of another node, but it
// might lie.
void Jobs::keep_for_later(const PeerNote& note) {
  const auto now = Clock::now();
  std::erase_if(early_notes_, [&](const auto& item) {
    const bool old = now - item.second.came > k_early_notes_age;
    if (old) early_bytes_ -= item.second.bytes;
    return old;
  });
  const std::size_t bytes = encode_peer_note(note).size();
  EarlyNote& kept = early_notes_[{{note.job, note.restart}, note.from}];
  if (kept.note.sequence >= note.sequence) return;
  early_bytes_ -= std::exchange(kept.bytes, 0);
  if (early_bytes_ + bytes > k_max_early_bytes) {
    early_notes_.erase({{note.job, note.restart}, note.from});
    return;
  }
  early_bytes_ += bytes;
  kept = {note, bytes, now};
}

void Jobs::take_early_notes(const JobKey& key) {
  std::vector<PeerNote> notes;
  for (auto item = early_notes_.lower_bound({key, ""});
       item != early_notes_.end() && item->first.first == key;) {
    notes.push_back(std::move(item->second.note));
    early_bytes_ -= item->second.bytes;
    item = early_notes_.erase(item);
  }
  for (const PeerNote& note : notes) take_note(note);
}

bool Jobs::lacks_outcome(const Job& job) const {
  const JobRecord& record = job.record;
  return is_shared(record) && !is_on_first_node(record) && !record.outcome_known &&
         at_.config.peer.outcome_wait_s > 0 && !at_.peers.off();
}

void Jobs::await_outcome(Job& job) {
  set_state(job, JobState::awaiting_outcome);
  ask_outcome(job.record.key(),
              Clock::now() + std::chrono::seconds(at_.config.peer.outcome_wait_s));
}

void Jobs::ask_outcome(const JobKey& key, Clock::time_point give_up) {
  Job* job = find(key);
  if (job == nullptr || job->record.state != JobState::awaiting_outcome) return;
  if (Clock::now() >= give_up) {
    log::warn(about(job->record), "{} has not said how the job ended",
              printable(job->record.begin.first_node));
    return start_stage_out(*job);
  }
  report(*job, own_state(*job));
  at_.loop.after(k_ask_again, [this, key, give_up] { ask_outcome(key, give_up); });
}

// A job that was refused here is on no list, so its first node is told from here.
void Jobs::tell_refusal(const Begin& begin, const std::string& what, unsigned tries) {
  if (!is_shared(begin) || begin.node_index == 0 || tries == 0 || at_.peers.off()) return;
  NodeNote note;
  note.state = NodeState::failed;
  note.cause = ("nodestaged has refused the job: " + what).substr(0, k_max_note_text_bytes);
  at_.peers.send({{begin.first_node}, begin.node, begin.job, begin.restart, 0, note},
                 [this, begin, what, tries](const std::string&, const PeerFault& fault) {
                   if (fault.text.empty()) return;
                   at_.loop.after(k_ask_again, [this, begin, what, tries] {
                     tell_refusal(begin, what, tries - 1);
                   });
                 });
}

}  // namespace nodestage
