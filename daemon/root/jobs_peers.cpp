// The job's other nodes: nobody starts before all are ready, and all know how the job ended.
#include <algorithm>

#include "common/human.hpp"
#include "daemon/root/jobs.hpp"
#include "daemon/root/log.hpp"
#include "daemon/root/refusal_log.hpp"
#include "daemon/root/summary.hpp"

namespace nodestage {
namespace {

// How often a job with an open verdict is looked at.
constexpr std::chrono::milliseconds k_pulse{250};
constexpr std::chrono::milliseconds k_pulse_when_off{10'000};
// The first node's prolog may be the last.
constexpr std::chrono::seconds k_early_notes_age{300};
constexpr std::size_t k_max_early_notes = 20'000;

// Between two notes of one node while nothing happens: of a large job less often, so that its first
// node gets at most about a hundred (from 3,000 nodes on: n / 30) each second.
std::chrono::milliseconds note_interval(const JobRecord& record) {
  const std::uint64_t scaled = 10ULL * record.begin.node_count;
  return std::chrono::milliseconds(std::clamp<std::uint64_t>(scaled, 2000, 30'000));
}

std::string seconds_text(std::chrono::milliseconds time) {
  return human_duration(static_cast<std::uint64_t>(time.count()));
}

std::string bounded(const std::string& text) { return text.substr(0, k_max_note_text_bytes); }

std::string in_brackets(const std::string& fault) {
  return fault.empty() ? "" : " (" + fault + ")";
}

}  // namespace

// At its begin, and again by a restarted daemon.
void Jobs::join(Job& job) {
  const JobRecord& record = job.record;
  if (!is_shared(record)) return;
  if (is_on_first_node(record) && record.verdict == Verdict::open && !record.ended)
    job.talk.barrier.emplace(record.begin.nodes, Clock::now());
  const JobKey key = record.key();
  job.talk.pulse = at_.loop.after(std::chrono::milliseconds(0), [this, key] {
    take_early_notes(key);
    pulse(key);
  });
}

bool Jobs::waits_for_all(const Job& job) const {
  return std::any_of(job.waiters.begin(), job.waiters.end(),
                     [](const auto& item) { return item.second.scope == WaitScope::all; });
}

void Jobs::pulse(const JobKey& key) {
  Job* job = find(key);
  if (job == nullptr || job->record.verdict != Verdict::open || job->record.ended) return;
  const bool off = at_.peers.off().has_value();
  job->talk.pulse = at_.loop.after(off ? k_pulse_when_off : k_pulse, [this, key] { pulse(key); });
  if (off) return;
  notice_ready(*job);
  is_on_first_node(job->record) ? watch_others(*job) : watch_first(*job);
}

NodeNote Jobs::own_state(const Job& job) const {
  NodeNote note;
  switch (job.record.state) {
    case JobState::waiting_for_directory:
    case JobState::queued:
      break;
    case JobState::staging: {
      const Progress progress = progress_of(worker_status(job, WorkerTask::stage));
      note.state = NodeState::staging;
      note.bytes_read = progress.bytes_read;
      note.bytes_total = progress.bytes_total;
      break;
    }
    case JobState::failed:
      note.state = NodeState::failed;
      note.cause = bounded(job.record.cause);
      break;
    default:
      note.state = NodeState::ready;
      note.waits = waits_for_all(job) ? 1 : 0;
      note.ended = job.record.ended ? 1 : 0;
  }
  return note;
}

// Ready or failed: the others hear of it at once.
void Jobs::own_state_changed(Job& job) {
  if (!is_shared(job.record) || job.record.verdict != Verdict::open || at_.peers.off()) return;
  is_on_first_node(job.record) ? watch_others(job) : report(job);
}

void Jobs::report(Job& job) {
  const JobRecord& record = job.record;
  const JobKey key = record.key();
  job.talk.next_note = Clock::now() + note_interval(record);
  at_.peers.send(
      {{record.begin.first_node}, record.begin.node, key.job, key.restart, 0, own_state(job)},
      [this, key](const std::string& node, const std::string& fault) {
        Job* sender = find(key);
        if (sender == nullptr) return;
        if (fault != sender->talk.send_fault && !fault.empty())
          spdlog::warn("{}: {} was not told of this node: {}", about(sender->record), node, fault);
        sender->talk.send_fault = fault;
      });
}

// On the first node.
void Jobs::watch_others(Job& job) {
  Talk& talk = job.talk;
  if (!talk.barrier) return;
  const JobKey key = job.record.key();
  const auto now = Clock::now();
  talk.barrier->take(job.record.begin.node, own_state(job), now);
  const auto interval = std::chrono::duration_cast<std::chrono::seconds>(note_interval(job.record));
  const Barrier::Limits limits{
      std::chrono::seconds(at_.config.peer.begin_wait_s),
      std::max(std::chrono::seconds(at_.config.peer.silence_wait_s), 3 * interval)};
  for (const std::string& late : talk.barrier->overdue(now, limits)) {
    at_.peers.probe(late, [this, key](const std::string& node, const std::string& fault) {
      judge(key, node, fault);
    });
  }
  if (const Verdict verdict = talk.barrier->verdict(); verdict != Verdict::open)
    return decide(job, verdict, talk.barrier->text());
  if (now < talk.next_note) return;
  talk.next_note = now + note_interval(job.record);
  tell_nodes(job, talk.barrier->listeners());
}

// A node has been silent for too long, and this came of knocking at its port.
void Jobs::judge(const JobKey& key, const std::string& node, const std::string& fault) {
  Job* job = find(key);
  if (job == nullptr || !job->talk.barrier || at_.peers.off()) return;
  const JobRecord& record = job->record;
  Barrier& barrier = *job->talk.barrier;
  const auto begin_wait = std::chrono::seconds(at_.config.peer.begin_wait_s);
  const std::string again = ". Submit the job again, with --exclude=" + printable(node) +
                            " to avoid that node, and tell the administrators.";
  std::string cause;
  if (barrier.has_begun(node)) {
    cause = "has begun and then fallen silent: " +
            (fault.empty() ? "its nodestaged runs, but cannot reach this node or has lost the job"
                           : "the node or its nodestaged is down" + in_brackets(fault)) +
            again;
  } else if (record.begin.at_allocation == 0) {
    cause = "has not begun within " + seconds_text(begin_wait) +
            ": slurm.conf lacks PrologFlags=Alloc, so its prolog runs with the first step there. "
            "Tell the administrators; --stage-wait=node waits for one node only.";
  } else if (fault.empty()) {
    cause = "has not begun within " + seconds_text(begin_wait) +
            ": nodestaged runs there, but the job's prolog has not, or it cannot reach port " +
            std::to_string(at_.config.peer.port) + " of " + printable(record.begin.node) + again;
  } else {
    cause = "has not begun within " + seconds_text(begin_wait) +
            ": nodestaged does not run there, or its port is blocked" + in_brackets(fault) + again;
  }
  spdlog::warn("{}: node {} {}", about(record), printable(node), cause);
  const bool fails = at_.config.peer.on_missing == OnMissing::fail;
  fails ? barrier.fail(node, cause) : barrier.leave_out(node, cause);
  watch_others(*job);
}

// On the other nodes.
void Jobs::watch_first(Job& job) {
  Talk& talk = job.talk;
  const auto now = Clock::now();
  const bool listens = job.record.state == JobState::ready && waits_for_all(job);
  if (listens && !talk.listening) {
    talk.listening = now;
    talk.next_note = now;  // it is to know at once
  } else if (!listens) {
    talk.listening.reset();
  }
  if (now >= talk.next_note) report(job);
  if (!listens || talk.asked_after) return;
  const auto silence = std::max<Clock::duration>(
      std::chrono::seconds(at_.config.peer.silence_wait_s), 3 * note_interval(job.record));
  const auto limit =
      talk.heard ? silence : Clock::duration(std::chrono::seconds(at_.config.peer.begin_wait_s));
  if (now - std::max(*talk.listening, talk.heard.value_or(*talk.listening)) < limit) return;
  talk.asked_after = true;
  const JobKey key = job.record.key();
  at_.peers.probe(
      job.record.begin.first_node,
      [this, key](const std::string&, const std::string& fault) { judge_first(key, fault); });
}

void Jobs::judge_first(const JobKey& key, const std::string& fault) {
  Job* job = find(key);
  if (job == nullptr || job->record.verdict != Verdict::open || !job->talk.asked_after) return;
  const std::string& why = job->talk.send_fault.empty() ? fault : job->talk.send_fault;
  const std::string first = printable(job->record.begin.first_node);
  const std::string cause =
      first + ", the job's first node, does not say whether all nodes are ready" +
      in_brackets(why) + ": nodestaged does not run there, its port is blocked, or the job's " +
      "prolog has not run there. Submit the job again, with --exclude=" + first +
      " to avoid that node, and tell the administrators.";
  spdlog::warn("{}: {}", about(job->record), cause);
  const bool fails = at_.config.peer.on_missing == OnMissing::fail;
  decide(*job, fails ? Verdict::failed : Verdict::ready,
         fails ? cause : "going on without: " + cause);
}

void Jobs::decide(Job& job, Verdict verdict, const std::string& text) {
  job.record.verdict = verdict;
  job.record.verdict_text = bounded(printable(text, Newlines::keep));
  job.talk.barrier.reset();
  if (verdict == Verdict::ready) {
    spdlog::info("{}: all nodes are ready", about(job.record));
  } else {
    spdlog::warn("{}: the job fails on all nodes: {}", about(job.record),
                 printable(text, Newlines::join));
  }
  save(job);
  if (is_on_first_node(job.record)) tell_all_nodes(job);
  tell_waiters(job);
}

JobNote Jobs::job_note(const Job& job) {
  const JobRecord& record = job.record;
  JobNote note;
  note.verdict = record.verdict;
  note.text = bounded(job.talk.barrier ? job.talk.barrier->text() : record.verdict_text);
  note.facts = record.facts;
  note.outcome_known = record.ended || record.batch_status;
  note.status = record.facts.batch ? record.batch_status : record.last_status;
  return note;
}

void Jobs::tell_nodes(Job& job, std::vector<std::string> nodes) {
  const JobRecord& record = job.record;
  std::erase(nodes, record.begin.node);
  if (nodes.empty() || at_.peers.off()) return;
  const std::string label = about(record);
  at_.peers.send({std::move(nodes), record.begin.node, record.begin.job, record.begin.restart, 0,
                  job_note(job)},
                 [label](const std::string& node, const std::string& fault) {
                   // Whoever wants to know asks again.
                   if (!fault.empty()) spdlog::info("{}: {} was not told: {}", label, node, fault);
                 });
}

void Jobs::tell_all_nodes(Job& job) { tell_nodes(job, job.record.begin.nodes); }

// The batch script has ended, or the job has.
void Jobs::tell_outcome(Job& job) {
  if (is_shared(job.record) && is_on_first_node(job.record)) tell_all_nodes(job);
}

void Jobs::take_note(const PeerNote& note) {
  const JobKey key{note.job, note.restart};
  Job* job = find(key);
  if (job == nullptr) return keep_for_later(note);
  const Begin& begin = job->record.begin;
  const auto holds = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const std::string who = "peer " + printable(note.from);
  if (!holds(note.to, begin.node)) return log_refusal(who, "a note that is for another node");
  const bool to_first = is_on_first_node(job->record);
  if (to_first != std::holds_alternative<NodeNote>(note.body))
    return log_refusal(who, "a note of the wrong kind");
  if (note.from == begin.node ||
      (to_first ? !holds(begin.nodes, note.from) : note.from != begin.first_node))
    return log_refusal(who, "a note from a node that is not of job " + to_text(key));
  std::uint64_t& last = job->talk.sequences[note.from];
  if (note.sequence <= last) return log_refusal(who, "a note that is not newer than the last one");
  last = note.sequence;
  std::visit([&](const auto& body) { take(*job, note.from, body); }, note.body);
}

void Jobs::take(Job& job, const std::string& from, const NodeNote& note) {
  if (job.talk.barrier) {
    NodeNote shown = note;
    shown.cause = printable(note.cause, Newlines::keep);
    job.talk.barrier->take(from, shown, Clock::now());
    if (const Verdict verdict = job.talk.barrier->verdict(); verdict != Verdict::open)
      return decide(job, verdict, job.talk.barrier->text());
  }
  // It has missed what all were told.
  const bool asks = note.ended != 0 ? job_note(job).outcome_known : !job.talk.barrier;
  if (asks) tell_nodes(job, {from});
}

void Jobs::take(Job& job, const std::string&, const JobNote& note) {
  JobRecord& record = job.record;
  job.talk.heard = Clock::now();
  job.talk.asked_after = false;
  job.talk.line = printable(note.text);
  if (note.facts.known) record.facts = note.facts;
  if (note.outcome_known) {
    record.outcome_known = true;
    record.first_status = note.status;
  }
  if (record.state == JobState::awaiting_outcome) {
    if (record.outcome_known) start_stage_out(job);
  } else if (note.verdict != Verdict::open && record.verdict == Verdict::open) {
    decide(job, note.verdict, note.text);
  } else if (note.verdict != Verdict::open) {
    save(job);
  }
}

// A job whose prolog here is still to come, as a rule. Only root of the cluster's hosts can fill
// this.
void Jobs::keep_for_later(const PeerNote& note) {
  const auto now = Clock::now();
  std::erase_if(early_notes_,
                [now](const EarlyNote& early) { return now - early.came > k_early_notes_age; });
  if (std::holds_alternative<NodeNote>(note.body) && early_notes_.size() < k_max_early_notes)
    early_notes_.push_back({note, now});
}

void Jobs::take_early_notes(const JobKey& key) {
  std::vector<EarlyNote> notes;
  std::erase_if(early_notes_, [&](const EarlyNote& early) {
    const bool same = early.note.job == key.job && early.note.restart == key.restart;
    if (same) notes.push_back(early);
    return same;
  });
  for (const EarlyNote& early : notes) take_note(early.note);
}

bool Jobs::lacks_outcome(const Job& job) const {
  const JobRecord& record = job.record;
  return is_shared(record) && !is_on_first_node(record) && !record.outcome_known &&
         at_.config.peer.outcome_wait_s > 0 && !at_.peers.off();
}

// How the job ended is known on its first node (`when=` of --stage-out), which tells all.
void Jobs::await_outcome(Job& job) {
  const JobKey key = job.record.key();
  set_state(job, JobState::awaiting_outcome);
  report(job);
  at_.loop.after(std::chrono::seconds(at_.config.peer.outcome_wait_s), [this, key] {
    Job* late = find(key);
    if (late == nullptr || late->record.state != JobState::awaiting_outcome) return;
    spdlog::warn("{}: {} has not said how the job ended", about(late->record),
                 printable(late->record.begin.first_node));
    start_stage_out(*late);
  });
}

}  // namespace nodestage
