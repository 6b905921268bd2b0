// Relays: this node's part in passing on the sources of a job from node to node. Starts the relay
// worker beside each staging worker of a job with several nodes, and learns from the job's first
// node which node it gets its data from. On the first node it decides that, too.
//
// Nothing depends on it: where anything fails here, the staging worker reads the originals.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "common/os/file.hpp"
#include "common/result.hpp"
#include "common/wire/peer_note.hpp"
#include "daemon/root/basis/loop.hpp"
#include "daemon/root/nodes/peers.hpp"
#include "daemon/root/tasks/job_workers.hpp"

namespace nodestage {

// RelayChains: decides on a job's first node from which node each other gets its data: from the one
// that joined last. Pure, but for the keys.

// A node whose relay worker listens.
struct RelayLink {
  std::string node;
  std::string address;  // numeric; empty: the job's first node itself
  std::uint16_t port = 0;
};

struct ChainPosition {
  std::string key;                  // of the chain, k_relay_key_bytes
  std::optional<RelayLink> before;  // none: the node reads the original
};

class RelayChains {
 public:
  // Gives a place to a relay worker that has started. With port 0 it does not listen, so no node
  // gets anything from it. A node that joins again with the same port gets the same place; with
  // another one, it stages again. A chain has at most `longest` nodes. Fails if no key can be made.
  Result<ChainPosition> join(const RelayLink& link, std::uint64_t longest);
  [[nodiscard]] bool has(const std::string& node) const { return joined_.contains(node); }

 private:
  struct Joined {
    std::uint16_t port;
    ChainPosition place;
  };
  std::map<std::string, Joined> joined_;  // by node
  std::string key_;                       // of the chain that grows
  std::uint64_t length_ = 0;
  std::optional<RelayLink> last_;  // of that chain
};

// What a staging worker and a relay worker have in common; empty where there is none.
struct RelayFiles {
  Fd board;
  Fd spool;
};

class Relays {
 public:
  struct Deps : JobDeps {
    Peers& peers;
  };
  explicit Relays(const Deps& deps) : deps_(deps) {}
  Relays(const Relays&) = delete;

  // Returns whether sources of this job can be relayed here: it stages something on several nodes,
  // and the settings allow it.
  [[nodiscard]] bool is_wanted(const JobRecord& record) const;

  // Starts the relay worker of a job whose staging worker is about to start in `directory_fd`
  // (borrowed). Returns the files for the latter; empty if nothing will be relayed.
  RelayFiles start(JobRecord& record, int directory_fd);
  // Takes over the relay worker of an earlier daemon.
  void adopt(JobRecord& record);
  // Stops the relay worker, since the staging has failed or the job has ended.
  void stop(const JobKey& key) { deps_.workers.kill(key, WorkerTask::relay); }
  void forget(const JobKey& key) { jobs_.erase(key); }

  // Takes, on the first node, a note of another node of the job.
  void heard(const JobRecord& record, const std::string& from, const NodeNote& note);
  // Takes a note that came from `address`. Refuses and logs one that is not the job's.
  void take(const JobRecord& record, const PeerNote& note, const std::string& address);

 private:
  struct Job {
    // On the first node:
    RelayChains chains;
    std::set<std::string> to_welcome;
    // On all, while a relay worker has no plan:
    bool is_welcome = false;
    std::optional<std::uint16_t> port;  // once it is known
    bool is_joining = false;
    bool is_answered = false;
    Clock::time_point give_up{};
    Clock::time_point asked{};
  };
  Result<RelayFiles> start_worker(JobRecord& record, int directory_fd);
  void begin_join(JobRecord& record);
  void pulse(const JobKey& key);
  void join(const JobRecord& record, Job& job);
  void join_here(const JobRecord& record, Job& job);
  void welcome(const JobKey& key);
  void take_off(const JobRecord& record);
  void take_join(const JobRecord& record, const PeerNote& note, const std::string& address);
  void take_answer(const JobRecord& record, const RelayNote& note, const std::string& address);
  void plan(const JobRecord& record, const std::string& key, const std::optional<RelayLink>& from);
  void write(const JobRecord& record, const RelayPlan& plan) const;
  [[nodiscard]] std::string address_of(const RelayLink& link) const;
  void send(const JobRecord& record, std::vector<std::string> to, RelayNote note);

  Deps deps_;
  std::map<JobKey, Job> jobs_;
};

}  // namespace nodestage
