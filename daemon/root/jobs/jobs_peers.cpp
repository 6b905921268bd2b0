// The job's other nodes: nobody starts before all are ready. How the job ended: jobs_outcome.cpp.
#include <algorithm>

#include "common/os/wall_clock.hpp"
#include "common/talk/summary.hpp"
#include "common/text/human.hpp"
#include "daemon/root/basis/log.hpp"
#include "daemon/root/basis/refusal_log.hpp"
#include "daemon/root/jobs/jobs.hpp"

namespace nodestage {
namespace {

// How often a job with an open verdict is looked at.
constexpr std::chrono::milliseconds k_pulse{250};
constexpr std::chrono::seconds k_pulse_when_off{10};
// A note that was not taken is sent again after 1 to 2 seconds.
constexpr std::chrono::milliseconds k_resend{1000};
constexpr std::chrono::milliseconds k_line_age{500};

// Between two notes of one node while nothing happens: of a large job less often, so that its first
// node gets at most a hundred each second (from 3,000 nodes on: n / 30).
std::chrono::milliseconds note_interval(const JobRecord& record) {
  const std::uint64_t scaled = 10ULL * record.begin.node_count;
  return std::chrono::milliseconds(std::clamp<std::uint64_t>(scaled, 2000, 30'000));
}

// How long a node may be silent.
std::chrono::seconds silence_of(const JobRecord& record, const Config& config) {
  const auto notes = std::chrono::ceil<std::chrono::seconds>(3 * note_interval(record));
  return std::max(std::chrono::seconds(config.peer.silence_wait_s), notes);
}

std::string bounded(const std::string& text) { return text.substr(0, k_max_note_text_bytes); }

std::string in_brackets(const std::string& fault) {
  return fault.empty() ? "" : " (" + fault + ")";
}

std::string submit_again(const std::string& node) {
  return ". Submit the job again, with --exclude=" + printable(node) +
         " to avoid that node, and tell the administrators.";
}

// Why a node is silent, as far as knocking at its port has told.
std::string why_silent(const Begin& begin, bool has_begun, const std::string& fault,
                       const Config& config) {
  if (has_begun) {
    return "has begun and then fallen silent: " +
           (fault.empty() ? "its nodestaged runs, but cannot reach this node or has lost the job"
                          : "the node or its nodestaged is down" + in_brackets(fault));
  }
  const std::string late =
      "has not begun within " + human_duration(config.peer.begin_wait_s * 1000) + ": ";
  if (begin.at_allocation == 0) {
    return late +
           "slurm.conf lacks PrologFlags=Alloc, so its prolog runs with the first step "
           "there (--stage-wait=node waits for one node only)" +
           in_brackets(fault);
  }
  if (!fault.empty())
    return late + "nodestaged does not run there, or its port is blocked" + in_brackets(fault);
  return late + "nodestaged runs there, but the job's prolog has not, or it cannot reach port " +
         std::to_string(config.peer.port) + " of " + printable(begin.node) +
         ", or MUNGE does not work on one of the two (the log of nodestaged says more)";
}

}  // namespace

// At its begin, and again by a restarted daemon.
void Jobs::join(Job& job) {
  const JobRecord& record = job.record;
  if (!is_shared(record)) return;
  if (is_on_first_node(record)) {
    job.talk.members = {record.begin.nodes.begin(), record.begin.nodes.end()};
    if (record.verdict == Verdict::open && !record.ended)
      job.talk.barrier.emplace(record.begin.nodes, Clock::now());
  }
  const JobKey key = record.key();
  at_.loop.after(std::chrono::milliseconds(0), [this, key] {
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
  at_.loop.after(off ? k_pulse_when_off : k_pulse, [this, key] { pulse(key); });
  if (off) return;
  notice_ready(*job);
  if (const auto why = at_.peers.broken()) return go_without_peers(*job, *why);
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
      note.waits = waits_for_all(job) ? k_listens : 0;
      note.ended = job.record.ended ? 1 : 0;
  }
  const bool has_run = job.record.times.run != 0;
  if (has_run || credits_.is_looked_at(job.record.key())) note.waits |= k_is_in_use;
  return note;
}

// Ready or failed: the others hear of it at once.
void Jobs::own_state_changed(Job& job) {
  if (!is_shared(job.record) || job.record.verdict != Verdict::open || at_.peers.off()) return;
  is_on_first_node(job.record) ? watch_others(job) : report(job, own_state(job));
}

// That a step here uses the job before it is ready, or does so no more.
void Jobs::tell_use(Job& job) {
  const bool is_told = is_shared(job.record) && !is_on_first_node(job.record);
  if (is_told && job.record.verdict == Verdict::open && !at_.peers.off())
    report(job, own_state(job));
}

// To the first node.
void Jobs::report(Job& job, const NodeNote& note) {
  const JobRecord& record = job.record;
  const JobKey key = record.key();
  job.talk.next_note = Clock::now() + note_interval(record);
  at_.peers.send({{record.begin.first_node}, record.begin.node, key.job, key.restart, 0, note},
                 [this, key](const std::string& node, const PeerFault& fault) {
                   Job* sender = find(key);
                   if (sender == nullptr) return;
                   Talk& talk = sender->talk;
                   if (fault.text != talk.send_fault && !fault.text.empty())
                     log::warn(about(sender->record), "{} was not told of this node: {}",
                               printable(node), fault.text);
                   talk.send_fault = fault.text;
                   const std::chrono::milliseconds jitter(sender->record.begin.node_index % 1000);
                   if (!fault.text.empty())
                     talk.next_note = std::min(talk.next_note, Clock::now() + k_resend + jitter);
                 });
}

// On the first node.
void Jobs::watch_others(Job& job) {
  Talk& talk = job.talk;
  if (!talk.barrier) return;
  const JobKey key = job.record.key();
  const auto now = Clock::now();
  talk.barrier->take(job.record.begin.node, own_state(job), now);
  const Barrier::Limits limits{std::chrono::seconds(at_.config.peer.begin_wait_s),
                               silence_of(job.record, at_.config)};
  for (const std::string& late : talk.barrier->overdue(now, limits)) {
    at_.peers.probe(late, [this, key](const std::string& node, const PeerFault& fault) {
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
void Jobs::judge(const JobKey& key, const std::string& node, const PeerFault& fault) {
  Job* job = find(key);
  if (job == nullptr || !job->talk.barrier || at_.peers.off()) return;
  Barrier& barrier = *job->talk.barrier;
  if (!barrier.is_asked_after(node)) return;  // it has spoken meanwhile
  if (fault.where == PeerFault::Where::here) return barrier.ask_again(node, Clock::now());
  const std::string cause =
      why_silent(job->record.begin, barrier.has_begun(node), fault.text, at_.config);
  log::warn(about(job->record), "node {} {}", printable(node), cause);
  const bool fails = at_.config.peer.on_missing == OnMissing::fail;
  fails ? barrier.fail(node, cause + submit_again(node)) : barrier.leave_out(node, cause);
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
  if (now >= talk.next_note) report(job, own_state(job));
  if (!listens || talk.asked_after) return;
  const auto limit = talk.heard ? silence_of(job.record, at_.config)
                                : std::chrono::seconds(at_.config.peer.begin_wait_s);
  if (now - std::max(*talk.listening, talk.heard.value_or(*talk.listening)) < limit) return;
  talk.asked_after = true;
  const JobKey key = job.record.key();
  at_.peers.probe(
      job.record.begin.first_node,
      [this, key](const std::string&, const PeerFault& fault) { judge_first(key, fault); });
}

void Jobs::judge_first(const JobKey& key, const PeerFault& fault) {
  Job* job = find(key);
  if (job == nullptr || job->record.verdict != Verdict::open || !job->talk.asked_after) return;
  if (fault.where == PeerFault::Where::here) {
    job->talk.asked_after = false;
    job->talk.listening = Clock::now();
    return;
  }
  const Begin& begin = job->record.begin;
  const std::string& why = fault.text.empty() ? job->talk.send_fault : fault.text;
  const std::string cause =
      printable(begin.first_node) +
      ", the job's first node, does not say whether all nodes are ready: " +
      (why.empty() ? "its nodestaged runs, but does not know this job, or cannot reach port " +
                         std::to_string(at_.config.peer.port) + " of " + printable(begin.node)
                   : "nodestaged does not run there, or its port is blocked" + in_brackets(why));
  const bool fails = at_.config.peer.on_missing == OnMissing::fail;
  fails ? decide(*job, Verdict::failed, cause + submit_again(begin.first_node))
        : decide(*job, Verdict::ready, "going on without the others: " + cause);
}

// This node hears nothing, and that will not pass by itself.
void Jobs::go_without_peers(Job& job, const std::string& why) {
  const std::string cause = "this node cannot hear the job's other nodes: " + why;
  if (at_.config.peer.on_missing == OnMissing::proceed)
    return decide(job, Verdict::ready, "going on without the others: " + cause);
  const std::string& node = job.record.begin.node;
  NodeNote note;
  note.state = NodeState::failed;
  note.cause = bounded(cause + submit_again(node));
  if (!is_on_first_node(job.record)) report(job, note);
  decide(job, Verdict::failed, "node " + printable(node) + ": " + note.cause);
}

void Jobs::decide(Job& job, Verdict verdict, const std::string& text) {
  job.record.verdict = verdict;
  job.record.times.decided = wall_ms();
  job.record.verdict_text = bounded(printable(text, Newlines::keep));
  job.talk.barrier.reset();
  if (verdict == Verdict::ready) {
    if (job.since) counters_.add_time(Phase::barrier, Clock::now() - *job.since);
    may_run(job);
    log::info(about(job.record), "all nodes are ready{}", text.empty() ? "" : "; " + text);
  } else {
    if (job.record.cause.empty()) counters_.add_failure(Activity::stage, FailureCause::other_node);
    log::warn(about(job.record), "the job fails on all nodes: {}", text);
  }
  save(job);
  if (is_on_first_node(job.record)) tell_all_nodes(job);
  tell_waiters(job);
}

std::string Jobs::others_line(Job& job) {
  Talk& talk = job.talk;
  const auto now = Clock::now();
  if (talk.barrier && now - talk.line_made >= k_line_age) {
    talk.line_made = now;
    talk.line =
        job.record.state == JobState::ready ? talk.barrier->text() : talk.barrier->count_text();
  }
  return talk.line;
}

void Jobs::tell_nodes(Job& job, std::vector<std::string> nodes) {
  const JobRecord& record = job.record;
  std::erase(nodes, record.begin.node);
  if (nodes.empty() || at_.peers.off()) return;
  // Whoever wants to know asks again; so one line of the log is enough.
  const auto logged = std::make_shared<bool>(false);
  at_.peers.send(
      {std::move(nodes), record.begin.node, record.begin.job, record.begin.restart, 0,
       job_note(job)},
      [logged, subject = about(record)](const std::string& node, const PeerFault& fault) {
        if (fault.text.empty() || std::exchange(*logged, true)) return;
        log::info(subject, "{} was not told: {}", printable(node), fault.text);
      });
}

void Jobs::tell_all_nodes(Job& job) { tell_nodes(job, job.record.begin.nodes); }

void Jobs::take_note(const PeerNote& note) {
  Job* job = find({note.job, note.restart});
  if (job == nullptr) return answer_late(note);
  const Begin& begin = job->record.begin;
  const std::string who = "peer " + printable(note.from);
  if (std::find(note.to.begin(), note.to.end(), begin.node) == note.to.end())
    return log_refusal(who, "a note that is for another node");
  const bool to_first = is_on_first_node(job->record);
  if (to_first != std::holds_alternative<NodeNote>(note.body))
    return log_refusal(who, "a note of the wrong kind");
  if (note.from == begin.node ||
      (to_first ? job->talk.members.count(note.from) == 0 : note.from != begin.first_node))
    return log_refusal(who, "a note from a node that is not of job " + to_text(job->record.key()));
  std::uint64_t& last = job->talk.sequences[note.from];
  if (note.sequence == last) return log_refusal(who, "a note that came before");
  // Connections may overtake each other.
  if (note.sequence < last) return log_refusal(who, "a note that is older than the last one");
  last = note.sequence;
  std::visit([&](const auto& body) { take(*job, note.from, body); }, note.body);
}

void Jobs::take(Job& job, const std::string& from, const NodeNote& note) {
  credits_.note_use(job.record.key(), from, (note.waits & k_is_in_use) != 0);
  if (job.talk.barrier) {
    NodeNote shown = note;
    shown.cause = printable(note.cause, Newlines::keep);
    job.talk.barrier->take(from, shown, Clock::now());
    if (const Verdict verdict = job.talk.barrier->verdict(); verdict != Verdict::open)
      return decide(job, verdict, job.talk.barrier->text());
  }
  // It has missed what all were told.
  if (note.ended != 0 ? knows_outcome(job.record) : !job.talk.barrier) tell_nodes(job, {from});
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
  } else if (note.verdict != Verdict::open || note.outcome_known) {
    save(job);
  }
}

}  // namespace nodestage
