#include "daemon/root/jobs/outcomes.hpp"

#include <algorithm>

#include "common/text/human.hpp"
#include "daemon/root/basis/log.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::seconds k_ask_again{1};
// Beyond the time for which the others ask.
constexpr std::chrono::seconds k_outcome_age{60};

}  // namespace

bool Outcomes::is_lacking(const JobRecord& record) const {
  return spans_nodes(record) && !is_on_first_node(record) && !record.outcome_known &&
         deps_.config.peer.outcome_wait_s > 0 && !deps_.peers.off();
}

void Outcomes::await(JobRecord& record) {
  deps_.table.change(record, JobState::awaiting_outcome);
  ask(record.key(), deps_.loop.now() + std::chrono::seconds(deps_.config.peer.outcome_wait_s));
}

void Outcomes::ask(const JobKey& key, Clock::time_point give_up) {
  JobRecord* record = deps_.table.find(key);
  if (record == nullptr || record->state != JobState::awaiting_outcome) return;
  if (deps_.loop.now() >= give_up) {
    log::warn(about(*record), "{} has not said how the job ended",
              printable(record->begin.first_node));
    return deps_.events.done(key, Fact::outcome_known);
  }
  deps_.talk.report(*record);
  deps_.loop.after(k_ask_again, [this, key, give_up] { ask(key, give_up); });
}

void Outcomes::keep(const JobRecord& record) {
  if (!spans_nodes(record) || !is_on_first_node(record)) return;
  const JobKey key = record.key();
  kept_[key] = {deps_.talk.note_of(record), record.begin.node, record.begin.nodes};
  deps_.loop.after(k_outcome_age + std::chrono::seconds(2 * deps_.config.peer.outcome_wait_s),
                   [this, key] { kept_.erase(key); });
}

bool Outcomes::answer(const PeerNote& note) {
  const JobKey key{note.job, note.restart};
  const auto* state = std::get_if<NodeNote>(&note.body);
  const auto found = kept_.find(key);
  if (state == nullptr || found == kept_.end()) return false;
  const Kept& kept = found->second;
  const bool is_member =
      std::find(kept.members.begin(), kept.members.end(), note.from) != kept.members.end();
  if (state->ended != 0 && is_member)
    deps_.peers.send({{note.from}, kept.node, key.job, key.restart, 0, kept.note},
                     [](const std::string&, const PeerFault&) {});
  return true;
}

void Outcomes::report_refusal(const Begin& begin, const std::string& what, unsigned tries) {
  if (!spans_nodes(begin) || begin.node_index == 0 || tries == 0 || deps_.peers.off()) return;
  NodeNote note;
  note.state = NodeState::failed;
  note.cause = bounded("nodestaged has refused the job: " + what);
  deps_.peers.send({{begin.first_node}, begin.node, begin.job, begin.restart, 0, note},
                   [this, begin, what, tries](const std::string&, const PeerFault& fault) {
                     if (fault.text.empty()) return;
                     deps_.loop.after(k_ask_again, [this, begin, what, tries] {
                       report_refusal(begin, what, tries - 1);
                     });
                   });
}

// PeerTalk: which nodes are silent, and what follows.

// On the first node.
void PeerTalk::watch_others(JobRecord& record) {
  const JobKey key = record.key();
  Talk& talk = talks_[key];
  if (!talk.barrier) return;
  const auto now = deps_.loop.now();
  talk.barrier->take(record.begin.node, own_state(record), now);
  const Barrier::Limits limits{std::chrono::seconds(deps_.config.peer.begin_wait_s),
                               silence_of(record, deps_.config)};
  for (const std::string& late : talk.barrier->overdue(now, limits)) {
    deps_.peers.probe(late, [this, key](const std::string& node, const PeerFault& fault) {
      judge(key, node, fault);
    });
  }
  if (talk.barrier->is_gathering(now)) return;
  if (const Verdict verdict = talk.barrier->verdict(); verdict != Verdict::open)
    return decide(record, verdict, talk.barrier->text(), talk.barrier->cause());
  if (now < talk.next_note) return;
  talk.next_note = now + note_interval(record);
  send_to_nodes(record, talk.barrier->listeners());
}

// A node has been silent for too long; `fault` is what a probe of its port has shown.
void PeerTalk::judge(const JobKey& key, const std::string& node, const PeerFault& fault) {
  JobRecord* record = deps_.table.find(key);
  if (record == nullptr || deps_.peers.off()) return;
  Talk& talk = talks_[key];
  if (!talk.barrier || !talk.barrier->is_asked_after(node)) return;  // it has spoken meanwhile
  if (fault.where == PeerFault::Where::here) return talk.barrier->ask_again(node, deps_.loop.now());
  const std::string cause =
      why_silent(record->begin, talk.barrier->has_begun(node), fault.text, deps_.config);
  log::warn(about(*record), "node {} {}", printable(node), cause);
  const bool fails = deps_.config.peer.on_missing == OnMissing::fail;
  fails ? talk.barrier->fail(node, cause + submit_again(node))
        : talk.barrier->leave_out(node, cause);
  watch_others(*record);
}

// On the other nodes.
void PeerTalk::watch_first(JobRecord& record) {
  const JobKey key = record.key();
  Talk& talk = talks_[key];
  const auto now = deps_.loop.now();
  const bool listens = record.state == JobState::ready && is_awaited_(key);
  if (listens && !talk.listening) {
    talk.listening = now;
    talk.next_note = now;  // the first node must know at once
  } else if (!listens) {
    talk.listening.reset();
  }
  if (now >= talk.next_note) report(record);
  if (!listens || talk.asked_after) return;
  const auto limit = talk.heard ? silence_of(record, deps_.config)
                                : std::chrono::seconds(deps_.config.peer.begin_wait_s);
  if (now - std::max(*talk.listening, talk.heard.value_or(*talk.listening)) < limit) return;
  talk.asked_after = true;
  deps_.peers.probe(
      record.begin.first_node,
      [this, key](const std::string&, const PeerFault& fault) { judge_first(key, fault); });
}

void PeerTalk::judge_first(const JobKey& key, const PeerFault& fault) {
  JobRecord* record = deps_.table.find(key);
  if (record == nullptr || record->verdict != Verdict::open) return;
  Talk& talk = talks_[key];
  if (!talk.asked_after) return;
  if (fault.where == PeerFault::Where::here) {
    talk.asked_after = false;
    talk.listening = deps_.loop.now();
    return;
  }
  const std::string cause = why_first_is_silent(
      record->begin, fault.text.empty() ? talk.send_fault : fault.text, deps_.config);
  const bool fails = deps_.config.peer.on_missing == OnMissing::fail;
  fails ? decide(*record, Verdict::failed, cause + submit_again(record->begin.first_node))
        : decide(*record, Verdict::ready, "going on without the others: " + cause);
}

// This node receives nothing, and that will not pass by itself.
void PeerTalk::go_without_peers(JobRecord& record, const std::string& why) {
  const std::string cause = "this node cannot hear the job's other nodes: " + why;
  if (deps_.config.peer.on_missing == OnMissing::proceed)
    return decide(record, Verdict::ready, "going on without the others: " + cause);
  const std::string& node = record.begin.node;
  NodeNote note;
  note.state = NodeState::failed;
  note.cause = bounded(cause + submit_again(node));
  if (!is_on_first_node(record)) send_report(record, note);
  decide(record, Verdict::failed, "node " + printable(node) + ": " + note.cause);
}

}  // namespace nodestage
