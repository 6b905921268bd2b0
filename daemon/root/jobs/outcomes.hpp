// Outcomes: how a job of several nodes ended is known on its first node and needed on all (`when=`
// of --stage-out). The first node sends it to all, and to each that asks later; the others wait for
// it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/wire/peer_note.hpp"
#include "daemon/root/basis/loop.hpp"
#include "daemon/root/jobs/peer_talk.hpp"
#include "daemon/root/nodes/peers.hpp"

namespace nodestage {

class Outcomes {
 public:
  struct Deps : JobDeps {
    Peers& peers;
    PeerTalk& talk;
  };
  explicit Outcomes(const Deps& deps) : deps_(deps) {}

  // Whether this node has to ask before it can stage out.
  [[nodiscard]] bool is_lacking(const JobRecord& record) const;
  // Asks until it is known, or peer.outcome_wait is over; then reports `outcome_known`.
  void await(JobRecord& record);
  // Keeps the outcome of a job that is about to be forgotten here: another node may still ask.
  void keep(const JobRecord& record);
  // Answers a note about a job that is not here with what was kept of it. Returns whether anything
  // was.
  bool answer(const PeerNote& note);
  // Sends the refusal of a job to its first node, again until it has arrived or so many tries are
  // over: such a job is not in the table.
  static constexpr unsigned k_refusal_tries = 5;
  void report_refusal(const Begin& begin, const std::string& what,
                      unsigned tries = k_refusal_tries);

 private:
  struct Kept {
    JobNote note;
    std::string node;
    std::vector<std::string> members;
  };
  void ask(const JobKey& key, Clock::time_point give_up);

  Deps deps_;
  std::map<JobKey, Kept> kept_;
};

}  // namespace nodestage
