// Barrier: what a job's first node knows of all nodes of the job, and what follows from that. It is
// pure: it sends nothing and reads no clock; callers pass the time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/wire/peer_note.hpp"

namespace nodestage {

class Barrier {
 public:
  using Time = std::chrono::steady_clock::time_point;

  struct Limits {
    std::chrono::seconds begin{120};   // from `now` of the constructor to a node's first note
    std::chrono::seconds silence{90};  // from one note to the next
  };

  Barrier(const std::vector<std::string>& nodes, Time now);

  // Takes the newest state of a node; ignores a node that is not of the job.
  void take(const std::string& node, const NodeNote& note, Time now);

  // Returns nodes that have been silent for too long. Each is returned once, until it speaks again.
  std::vector<std::string> overdue(Time now, const Limits& limits);
  [[nodiscard]] bool has_begun(const std::string& node) const;
  // is_asked_after(): overdue() returned the node, and it has been silent since. ask_again(): the
  // silence was this node's fault, so the node's time starts again.
  [[nodiscard]] bool is_asked_after(const std::string& node) const;
  void ask_again(const std::string& node, Time now);
  // Leaves the node out of the barrier, unless it has spoken in the meantime.
  void leave_out(const std::string& node, const std::string& why);
  // Does likewise, but the node fails the job.
  void fail(const std::string& node, const std::string& cause);

  // Returns `failed` as soon as one node has failed, and when all are ready and have chosen
  // different entries for `newest=`.
  [[nodiscard]] Verdict verdict() const;
  // Whether other nodes may still say that they share the failure: for a second.
  [[nodiscard]] bool is_gathering(Time now) const;
  // Returns a text for users. failed: the first failed node, those that share its cause, and the
  // cause. ready: the nodes that
  // were left out, or "". open: which nodes are not ready, and how far the slowest are.
  [[nodiscard]] std::string text() const;
  // Returns the cause in the text of a failure; "" if no node has given one.
  [[nodiscard]] std::string cause() const;
  // Returns a short text for an open one: "2 of 3 nodes are not ready".
  [[nodiscard]] std::string count_text() const;

  // Returns the nodes on which a step waits for the verdict.
  [[nodiscard]] std::vector<std::string> listeners() const;

 private:
  enum class Phase { silent, begun, staging, ready, failed, left_out };
  struct Node {
    Phase phase = Phase::silent;
    bool listens = false;
    bool asked_after = false;  // overdue() returned it
    std::uint64_t bytes_read = 0;
    std::uint64_t bytes_total = 0;
    std::string cause;
    std::string chosen;  // NodeNote::chosen
    Time heard{};
  };
  void move(Node& node, Phase phase);
  [[nodiscard]] std::string difference() const;
  [[nodiscard]] std::string failure() const;
  [[nodiscard]] std::vector<std::string> open_nodes() const;
  [[nodiscard]] std::string state_text(const std::string& name) const;
  [[nodiscard]] const Node& at(const std::string& name) const;
  [[nodiscard]] static double share(const Node& node);

  std::vector<std::string> order_;
  std::map<std::string, Node> nodes_;
  std::size_t open_;  // nodes that are neither ready nor left out nor failed
  std::size_t failed_ = 0;
  std::optional<Time> failed_at_;  // the first that said so
};

}  // namespace nodestage
