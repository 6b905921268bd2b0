// PeerTalk: what the daemons of a job's nodes send each other until it is decided whether the job
// runs. Every node reports to the job's first one, which decides when all are ready (Barrier); a
// node that is silent is probed, and named. How the job ended: outcomes.hpp.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/settings/config.hpp"
#include "common/wire/peer_note.hpp"
#include "daemon/root/basis/areas.hpp"
#include "daemon/root/basis/job.hpp"
#include "daemon/root/basis/loop.hpp"
#include "daemon/root/jobs/credits.hpp"
#include "daemon/root/nodes/barrier.hpp"
#include "daemon/root/nodes/peers.hpp"
#include "daemon/root/relay/relays.hpp"
#include "daemon/root/tasks/job_workers.hpp"

namespace nodestage {

// EarlyNotes: notes about jobs whose prolog has not run here yet. The newest of each node is kept,
// within bounds: what nodestage-peer passes on should be from root of another node, but can be
// forged.
class EarlyNotes {
 public:
  explicit EarlyNotes(const Loop& loop) : loop_(loop) {}

  void keep(const PeerNote& note);
  // Returns those of a job, and no longer keeps them.
  std::vector<PeerNote> take(const JobKey& key);

 private:
  struct Early {
    PeerNote note;
    std::size_t bytes = 0;
    Clock::time_point came{};
  };
  void drop_old();

  const Loop& loop_;
  std::map<std::pair<JobKey, std::string>, Early> notes_;  // by sender
  std::size_t bytes_ = 0;
};

// Messages to users about the other nodes of their job, and how often its nodes send notes. Pure.

// Returns the time between two notes of one node while nothing happens: it is longer in a large
// job, so that its first node gets at most a hundred each second (from 3,000 nodes on: n / 30).
std::chrono::milliseconds note_interval(const JobRecord& record);
std::chrono::seconds silence_of(const JobRecord& record, const Config& config);

// Returns as much of a text as fits into a note.
std::string bounded(const std::string& text);
// Returns what to do about that node; it follows a cause.
std::string submit_again(const std::string& node);
// Returns why a node is silent, as far as a probe of its port has shown: `fault`, "" when it
// listens.
std::string why_silent(const Begin& begin, bool has_begun, const std::string& fault,
                       const Config& config);
std::string why_first_is_silent(const Begin& begin, const std::string& fault, const Config& config);

class PeerTalk {
 public:
  struct Deps : JobDeps {
    Peers& peers;
    Relays& relays;
    Credits& credits;
  };
  // Whether a step here waits for all nodes of the job.
  using IsAwaited = std::function<bool(const JobKey& key)>;

  PeerTalk(const Deps& deps, IsAwaited is_awaited)
      : deps_(deps), is_awaited_(std::move(is_awaited)) {}
  PeerTalk(const PeerTalk&) = delete;

  // Begins with a job that is new here, or is carried on from the journal.
  void join(const JobRecord& record);
  void forget(const JobKey& key) { talks_.erase(key); }

  // Reports to the others at once that the job is ready here, or has failed.
  void state_changed(JobRecord& record);
  // Reports to the first node that a step here uses the job before all are ready, or no longer
  // does.
  void use_changed(const JobRecord& record);
  // Reports this node's state to the job's first node.
  void report(const JobRecord& record);
  // On the first node: sends what it knows to all.
  void send_to_all_nodes(const JobRecord& record);
  // Lets a job go on that waits for what a step reports. The job can be gone then.
  void names_known(const JobKey& key);
  [[nodiscard]] JobNote note_of(const JobRecord& record) const;
  // Takes in a note from another node's daemon. Refuses and logs one that is not the job's, or is
  // late.
  void take(JobRecord& record, const PeerNote& note);
  // Keeps a note about a job that is not here: it is taken in when the job comes.
  void keep_for_later(const PeerNote& note) { early_.keep(note); }

  // Returns whether the job's verdict came from its first node, which shows it, too.
  [[nodiscard]] bool has_verdict_of_first(const JobKey& key) const;
  // Return the nodes that are not ready, as text for users: briefly, and in full.
  [[nodiscard]] std::string line(const JobRecord& record);
  [[nodiscard]] std::string list(const JobKey& key) const;

 private:
  struct Talk {
    // On the first node:
    std::optional<Barrier> barrier;  // while the verdict is open
    std::set<std::string> members;
    std::set<std::string> reads_causes;  // k_reads_causes
    Clock::time_point line_made{};
    // On all:
    std::map<std::string, std::uint64_t> sequences;  // of the last note from each node
    std::string line;
    Clock::time_point next_note{};
    // On the other nodes, about the first:
    std::optional<Clock::time_point> heard;      // its last note
    std::optional<Clock::time_point> listening;  // since when a step waits for its verdict
    bool has_verdict = false;                    // that one's
    bool asked_after = false;
    std::string send_fault;  // of the last note to it
  };
  [[nodiscard]] bool is_open(const JobRecord& record) const;
  [[nodiscard]] NodeNote own_state(const JobRecord& record) const;
  void take_early(const JobKey& key);
  void pulse(const JobKey& key);
  void send_report(const JobRecord& record, const NodeNote& note);
  void report_sent(const JobKey& key, const std::string& node, const PeerFault& fault);
  void send_to_nodes(const JobRecord& record, std::vector<std::string> nodes);
  void send_note(const JobRecord& record, std::vector<std::string> nodes, const JobNote& note);
  void watch_others(JobRecord& record);
  void judge(const JobKey& key, const std::string& node, const PeerFault& fault);
  void watch_first(JobRecord& record);
  void judge_first(const JobKey& key, const PeerFault& fault);
  void go_without_peers(JobRecord& record, const std::string& why);
  void decide(JobRecord& record, Verdict verdict, const std::string& text,
              const std::string& cause = {});
  [[nodiscard]] std::string refusal_of(const JobRecord& record, const Talk& talk,
                                       const PeerNote& note) const;
  void take(JobRecord& record, Talk& talk, const std::string& from, const NodeNote& note);
  void take(JobRecord& record, Talk& talk, const JobNote& note);

  Deps deps_;
  IsAwaited is_awaited_;
  std::map<JobKey, Talk> talks_;
  EarlyNotes early_{deps_.loop};
};

}  // namespace nodestage
