#include "daemon/root/jobs/peer_talk.hpp"

#include <algorithm>
#include <memory>

#include "common/talk/summary.hpp"
#include "common/text/human.hpp"
#include "daemon/root/basis/log.hpp"

namespace nodestage {
namespace {

// The first node's prolog can be the last.
constexpr std::chrono::seconds k_age{300};
constexpr std::size_t k_max_reports_bytes = 16 << 20;

}  // namespace

void EarlyNotes::drop_old() {
  const auto now = loop_.now();
  std::erase_if(notes_, [&](const auto& item) {
    const bool old = now - item.second.came > k_age;
    if (old) bytes_ -= item.second.bytes;
    return old;
  });
}

void EarlyNotes::keep(const PeerNote& note) {
  drop_old();
  const std::pair<JobKey, std::string> from{{note.job, note.restart}, note.from};
  const std::size_t bytes = encode_peer_note(note).size();
  Early& kept = notes_[from];
  if (kept.note.sequence >= note.sequence) return;
  bytes_ -= kept.bytes;
  if (bytes_ + bytes > k_max_reports_bytes) {
    notes_.erase(from);
    return;
  }
  bytes_ += bytes;
  kept = {note, bytes, loop_.now()};
}

std::vector<PeerNote> EarlyNotes::take(const JobKey& key) {
  std::vector<PeerNote> notes;
  for (auto item = notes_.lower_bound({key, ""});
       item != notes_.end() && item->first.first == key;) {
    notes.push_back(std::move(item->second.note));
    bytes_ -= item->second.bytes;
    item = notes_.erase(item);
  }
  return notes;
}

namespace {

std::string in_brackets(const std::string& fault) {
  return fault.empty() ? "" : " (" + fault + ")";
}

}  // namespace

std::chrono::milliseconds note_interval(const JobRecord& record) {
  const std::uint64_t scaled = 10ULL * record.begin.node_count;
  return std::chrono::milliseconds(std::clamp<std::uint64_t>(scaled, 2000, 30'000));
}

std::chrono::seconds silence_of(const JobRecord& record, const Config& config) {
  const auto notes = std::chrono::ceil<std::chrono::seconds>(3 * note_interval(record));
  return std::max(std::chrono::seconds(config.peer.silence_wait_s), notes);
}

std::string bounded(const std::string& text) { return text.substr(0, k_max_note_text_bytes); }

std::string submit_again(const std::string& node) {
  return ". Submit the job again, with --exclude=" + printable(node) +
         " to avoid that node, and tell the administrators.";
}

std::string why_silent(const Begin& begin, bool has_begun, const std::string& fault,
                       const Config& config) {
  if (has_begun) {
    return "has begun and then fallen silent: " +
           (fault.empty() ? "its nodestaged runs, but cannot reach this node or has lost the job"
                          : "the node or its nodestaged is down" + in_brackets(fault));
  }
  const std::string late =
      "has not begun within " + human_duration(config.peer.begin_wait_s * 1000) + ": ";
  if ((begin.slurm_ways & k_at_allocation) == 0) {
    return late +
           "slurm.conf lacks PrologFlags=Alloc, so its prolog runs with the first step "
           "there (--stage-wait=node waits for one node only)" +
           in_brackets(fault);
  }
  if (!fault.empty())
    return late + "nodestaged does not run there, or its port is blocked" + in_brackets(fault);
  return late + "nodestaged runs there, but the job's prolog has not, or it cannot reach port " +
         std::to_string(config.peer.port) + " of " + printable(begin.node) +
         ", or one of the two cannot prove its notes to the other (the log of nodestaged says "
         "more)";
}

std::string why_first_is_silent(const Begin& begin, const std::string& fault,
                                const Config& config) {
  return printable(begin.first_node) +
         ", the job's first node, does not say whether all nodes are ready: " +
         (fault.empty()
              ? "its nodestaged runs, but does not know this job, or cannot reach port " +
                    std::to_string(config.peer.port) + " of " + printable(begin.node)
              : "nodestaged does not run there, or its port is blocked" + in_brackets(fault));
}

namespace {

// How often a job with an open verdict is looked at.
constexpr std::chrono::milliseconds k_talk_pulse{250};
constexpr std::chrono::seconds k_pulse_when_off{10};
// A note that was not taken is sent again after 1 to 2 seconds.
constexpr std::chrono::milliseconds k_resend{1000};
constexpr std::chrono::milliseconds k_line_age{500};

}  // namespace

void PeerTalk::join(const JobRecord& record) {
  if (!spans_nodes(record)) return;
  const JobKey key = record.key();
  if (is_on_first_node(record)) {
    Talk& talk = talks_[key];
    talk.members = {record.begin.nodes.begin(), record.begin.nodes.end()};
    if (record.verdict == Verdict::open && !record.ended)
      talk.barrier.emplace(record.begin.nodes, deps_.loop.now());
  }
  deps_.loop.after(std::chrono::milliseconds(0), [this, key] {
    take_early(key);
    pulse(key);
  });
}

void PeerTalk::take_early(const JobKey& key) {
  for (const PeerNote& note : early_.take(key))
    if (JobRecord* record = deps_.table.find(key)) take(*record, note);
}

void PeerTalk::pulse(const JobKey& key) {
  JobRecord* record = deps_.table.find(key);
  if (record == nullptr || record->verdict != Verdict::open || record->ended) return;
  const bool off = deps_.peers.off().has_value();
  deps_.loop.after(off ? k_pulse_when_off : k_talk_pulse, [this, key] { pulse(key); });
  if (off) return;
  if (const auto why = deps_.peers.broken()) return go_without_peers(*record, *why);
  is_on_first_node(*record) ? watch_others(*record) : watch_first(*record);
}

bool PeerTalk::is_open(const JobRecord& record) const {
  return spans_nodes(record) && record.verdict == Verdict::open && !deps_.peers.off();
}

NodeNote PeerTalk::own_state(const JobRecord& record) const {
  const JobKey key = record.key();
  NodeNote note;
  note.waits = k_reads_causes;
  switch (record.state) {
    case JobState::waiting_for_directory:
    case JobState::queued:
      break;
    case JobState::staging: {
      const WorkerStatus status = deps_.workers.status(key, WorkerTask::stage);
      const Progress progress = progress_of(status);
      if (makes_environment(status)) note.waits |= k_is_in_use;
      note.state = NodeState::staging;
      note.bytes_read = progress.bytes_read;
      note.bytes_total = progress.bytes_total;
      break;
    }
    case JobState::failed:
      note.state = NodeState::failed;
      note.cause = bounded(record.cause);
      break;
    case JobState::ready:
    case JobState::stopping:
    case JobState::awaiting_outcome:
    case JobState::staging_out:
    case JobState::held:
    case JobState::gone:
      note.state = NodeState::ready;
      note.chosen = deps_.workers.status(key, WorkerTask::stage).chosen;
      if (is_awaited_(key)) note.waits |= k_listens;
      note.ended = record.ended ? 1 : 0;
  }
  const bool has_run = record.times.run != 0;
  if (has_run || deps_.credits.is_looked_at(key)) note.waits |= k_is_in_use;
  if (deps_.relays.is_wanted(record)) note.waits |= k_relays;
  return note;
}

void PeerTalk::state_changed(JobRecord& record) {
  if (!is_open(record)) return;
  is_on_first_node(record) ? watch_others(record) : report(record);
}

void PeerTalk::use_changed(const JobRecord& record) {
  if (is_open(record) && !is_on_first_node(record)) report(record);
}

void PeerTalk::report(const JobRecord& record) { send_report(record, own_state(record)); }

void PeerTalk::send_report(const JobRecord& record, const NodeNote& note) {
  const JobKey key = record.key();
  talks_[key].next_note = deps_.loop.now() + note_interval(record);
  deps_.peers.send({{record.begin.first_node}, record.begin.node, key.job, key.restart, 0, note},
                   [this, key](const std::string& node, const PeerFault& fault) {
                     report_sent(key, node, fault);
                   });
}

void PeerTalk::report_sent(const JobKey& key, const std::string& node, const PeerFault& fault) {
  const JobRecord* record = deps_.table.find(key);
  if (record == nullptr) return;
  Talk& talk = talks_[key];
  if (fault.text != talk.send_fault && !fault.text.empty())
    log::warn(about(*record), "{} did not get the report of this node: {}", printable(node),
              fault.text);
  talk.send_fault = fault.text;
  const std::chrono::milliseconds jitter(record->begin.node_index % 1000);
  if (!fault.text.empty())
    talk.next_note = std::min(talk.next_note, deps_.loop.now() + k_resend + jitter);
}

void PeerTalk::decide(JobRecord& record, Verdict verdict, const std::string& text,
                      const std::string& cause) {
  record.verdict = verdict;
  record.times.decided = deps_.loop.wall_ms();
  record.verdict_text = bounded(printable(text, Newlines::keep));
  record.verdict_cause = bounded(printable(cause, Newlines::keep));
  talks_[record.key()].barrier.reset();
  if (verdict == Verdict::ready)
    log::info(about(record), "all nodes are ready{}", text.empty() ? "" : "; " + text);
  else
    log::warn(about(record), "the job fails on all nodes: {}", text);
  deps_.events.decided(record.key());
}

bool PeerTalk::has_verdict_of_first(const JobKey& key) const {
  const auto talk = talks_.find(key);
  return talk != talks_.end() && talk->second.has_verdict;
}

std::string PeerTalk::line(const JobRecord& record) {
  const auto found = talks_.find(record.key());
  if (found == talks_.end()) return {};
  Talk& talk = found->second;
  const auto now = deps_.loop.now();
  if (talk.barrier && now - talk.line_made >= k_line_age) {
    talk.line_made = now;
    const bool shows_nodes =
        record.state == JobState::ready && talk.barrier->verdict() == Verdict::open;
    talk.line = shows_nodes ? talk.barrier->text() : talk.barrier->count_text();
  }
  return talk.line;
}

std::string PeerTalk::list(const JobKey& key) const {
  const auto found = talks_.find(key);
  return found == talks_.end() || !found->second.barrier ? "" : found->second.barrier->text();
}

JobNote PeerTalk::note_of(const JobRecord& record) const {
  const auto talk = talks_.find(record.key());
  const bool is_undecided = talk != talks_.end() && talk->second.barrier;
  JobNote note;
  note.verdict = record.verdict;
  note.text = bounded(is_undecided ? talk->second.barrier->text() : record.verdict_text);
  note.cause = record.verdict_cause;
  note.facts = record.facts;
  note.outcome_known = knows_outcome(record);
  note.status = record.batch_status;
  if (!note.status && !record.facts.batch) note.status = record.last_status;
  return note;
}

void PeerTalk::send_to_nodes(const JobRecord& record, std::vector<std::string> nodes) {
  std::erase(nodes, record.begin.node);
  if (deps_.peers.off()) return;
  const auto& readers = talks_[record.key()].reads_causes;
  const auto others = std::stable_partition(
      nodes.begin(), nodes.end(), [&](const std::string& node) { return readers.contains(node); });
  JobNote note = note_of(record);
  send_note(record, {nodes.begin(), others}, note);
  note.cause.clear();
  send_note(record, {others, nodes.end()}, note);
}

// A node that needs the answer asks again, so one line of the log is enough.
void PeerTalk::send_note(const JobRecord& record, std::vector<std::string> nodes,
                         const JobNote& note) {
  if (nodes.empty()) return;
  const auto logged = std::make_shared<bool>(false);
  deps_.peers.send(
      {std::move(nodes), record.begin.node, record.begin.job, record.begin.restart, 0, note},
      [logged, subject = about(record)](const std::string& node, const PeerFault& fault) {
        if (fault.text.empty() || std::exchange(*logged, true)) return;
        log::info(subject, "{} did not get the note: {}", printable(node), fault.text);
      });
}

void PeerTalk::send_to_all_nodes(const JobRecord& record) {
  if (spans_nodes(record) && is_on_first_node(record)) send_to_nodes(record, record.begin.nodes);
}

// Why a note is not taken; "" when it is.
std::string PeerTalk::refusal_of(const JobRecord& record, const Talk& talk,
                                 const PeerNote& note) const {
  const Begin& begin = record.begin;
  if (std::find(note.to.begin(), note.to.end(), begin.node) == note.to.end())
    return "a note that is for another node";
  const bool to_first = is_on_first_node(record);
  if (to_first != std::holds_alternative<NodeNote>(note.body)) return "a note of the wrong kind";
  if (note.from == begin.node ||
      (to_first ? talk.members.count(note.from) == 0 : note.from != begin.first_node))
    return "a note from a node that is not of job " + to_text(record.key());
  const auto found = talk.sequences.find(note.from);
  const std::uint64_t last = found == talk.sequences.end() ? 0 : found->second;
  if (note.sequence > last) return {};
  if (note.sequence == last) return "a note that came before";
  return "a note that is older than the last one";  // connections can overtake each other
}

void PeerTalk::take(JobRecord& record, const PeerNote& note) {
  Talk& talk = talks_[record.key()];
  const std::string refusal = refusal_of(record, talk, note);
  if (!refusal.empty()) return log_refusal("peer " + printable(note.from), refusal);
  talk.sequences[note.from] = note.sequence;
  if (const auto* node = std::get_if<NodeNote>(&note.body)) {
    deps_.relays.heard(record, note.from, *node);
    take(record, talk, note.from, *node);
  } else if (const auto* job = std::get_if<JobNote>(&note.body)) {
    take(record, talk, *job);
  }
}

void PeerTalk::take(JobRecord& record, Talk& talk, const std::string& from, const NodeNote& note) {
  deps_.credits.note_use(record.key(), from, (note.waits & k_is_in_use) != 0);
  if ((note.waits & k_reads_causes) != 0)
    talk.reads_causes.insert(from);
  else
    talk.reads_causes.erase(from);  // it has the previous release again
  if (talk.barrier) {
    NodeNote shown = note;
    shown.cause = printable(note.cause, Newlines::keep);
    shown.chosen = printable(note.chosen, Newlines::keep);
    talk.barrier->take(from, shown, deps_.loop.now());
    const Verdict verdict = talk.barrier->verdict();
    if (verdict != Verdict::open && !talk.barrier->is_gathering(deps_.loop.now()))
      return decide(record, verdict, talk.barrier->text(), talk.barrier->cause());
  }
  // It has missed what was sent to all.
  const bool lacks_names = note.state == NodeState::begun && record.facts.known &&
                           may_need_step_names(record.begin.request);
  if (lacks_names || (note.ended != 0 ? knows_outcome(record) : !talk.barrier))
    send_to_nodes(record, {from});
}

void PeerTalk::names_known(const JobKey& key) {
  if (deps_.events.step_of(key) == Step::await_names) deps_.events.done(key, Fact::named);
}

void PeerTalk::take(JobRecord& record, Talk& talk, const JobNote& note) {
  const JobKey key = record.key();
  talk.heard = deps_.loop.now();
  talk.asked_after = false;
  talk.line = printable(note.text);
  if (note.facts.known) record.facts = note.facts;
  if (note.outcome_known) {
    record.outcome_known = true;
    record.first_status = note.status;
  }
  if (record.state == JobState::awaiting_outcome) {
    if (record.outcome_known) deps_.events.done(record.key(), Fact::outcome_known);
  } else if (note.verdict != Verdict::open && record.verdict == Verdict::open) {
    talk.has_verdict = true;
    decide(record, note.verdict, note.text, note.cause);
  } else if (note.verdict != Verdict::open || note.outcome_known) {
    deps_.table.save(record);
  }
  if (note.facts.known) names_known(key);
}

}  // namespace nodestage
