#include "daemon/root/jobs/outcomes.hpp"

#include <algorithm>

#include "common/text/human.hpp"
#include "daemon/root/basis/log.hpp"
#include "daemon/root/jobs/peer_texts.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::seconds k_ask_again{1};
// Beyond the time for which the others ask.
constexpr std::chrono::seconds k_outcome_age{60};
constexpr unsigned k_refusal_tries = 5;

}  // namespace

bool Outcomes::is_lacking(const JobRecord& record) const {
  return spans_nodes(record) && !is_on_first_node(record) && !record.outcome_known &&
         at_.config.peer.outcome_wait_s > 0 && !at_.peers.off();
}

void Outcomes::await(JobRecord& record) {
  at_.table.change(record, JobState::awaiting_outcome);
  ask(record.key(), at_.loop.now() + std::chrono::seconds(at_.config.peer.outcome_wait_s));
}

void Outcomes::ask(const JobKey& key, Clock::time_point give_up) {
  JobRecord* record = at_.table.find(key);
  if (record == nullptr || record->state != JobState::awaiting_outcome) return;
  if (at_.loop.now() >= give_up) {
    log::warn(about(*record), "{} has not said how the job ended",
              printable(record->begin.first_node));
    return at_.events.done(key, Fact::outcome_known);
  }
  at_.talk.report(*record);
  at_.loop.after(k_ask_again, [this, key, give_up] { ask(key, give_up); });
}

void Outcomes::keep(const JobRecord& record) {
  if (!spans_nodes(record) || !is_on_first_node(record)) return;
  const JobKey key = record.key();
  kept_[key] = {at_.talk.note_of(record), record.begin.node, record.begin.nodes};
  at_.loop.after(k_outcome_age + std::chrono::seconds(2 * at_.config.peer.outcome_wait_s),
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
    at_.peers.send({{note.from}, kept.node, key.job, key.restart, 0, kept.note},
                   [](const std::string&, const PeerFault&) {});
  return true;
}

void Outcomes::report_refusal(const Begin& begin, const std::string& what) {
  report_refusal(begin, what, k_refusal_tries);
}

void Outcomes::report_refusal(const Begin& begin, const std::string& what, unsigned tries) {
  if (!spans_nodes(begin) || begin.node_index == 0 || tries == 0 || at_.peers.off()) return;
  NodeNote note;
  note.state = NodeState::failed;
  note.cause = bounded("nodestaged has refused the job: " + what);
  at_.peers.send({{begin.first_node}, begin.node, begin.job, begin.restart, 0, note},
                 [this, begin, what, tries](const std::string&, const PeerFault& fault) {
                   if (fault.text.empty()) return;
                   at_.loop.after(k_ask_again, [this, begin, what, tries] {
                     report_refusal(begin, what, tries - 1);
                   });
                 });
}

}  // namespace nodestage
