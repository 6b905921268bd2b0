// Barrier: what a job's first node knows of all the job's nodes, and what follows. Pure: sends
// nothing, reads no clock, and is told the time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
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

  // The newest state of a node; of one that is not of the job, nothing.
  void take(const std::string& node, const NodeNote& note, Time now);

  // Nodes that have become too silent; each is named once until it has spoken again.
  std::vector<std::string> overdue(Time now, const Limits& limits);
  [[nodiscard]] bool has_begun(const std::string& node) const;
  // Named by overdue() and silent since. ask_again(): that was this node's fault, and its time
  // begins anew.
  [[nodiscard]] bool is_asked_after(const std::string& node) const;
  void ask_again(const std::string& node, Time now);
  // The barrier goes on without a node, if it has not spoken in the meantime.
  void leave_out(const std::string& node, const std::string& why);
  // The same node fails the job.
  void fail(const std::string& node, const std::string& cause);

  // failed as soon as one is.
  [[nodiscard]] Verdict verdict() const;
  // For people. failed: the first failed node's name and cause. ready: the nodes that were left
  // out, or "". open: which nodes are not ready and how far the slowest is.
  [[nodiscard]] std::string text() const;
  // open, in few words: "2 of 3 nodes are not ready".
  [[nodiscard]] std::string count_text() const;

  // Nodes where a step waits for the verdict.
  [[nodiscard]] std::vector<std::string> listeners() const;

 private:
  enum class Phase { silent, begun, staging, ready, failed, left_out };
  struct Node {
    Phase phase = Phase::silent;
    bool listens = false;
    bool asked_after = false;  // named by overdue()
    std::uint64_t bytes_read = 0;
    std::uint64_t bytes_total = 0;
    std::string cause;
    Time heard{};
  };
  void move(Node& node, Phase phase);
  [[nodiscard]] std::vector<std::string> open_nodes() const;
  [[nodiscard]] std::string state_text(const std::string& name) const;
  [[nodiscard]] const Node& at(const std::string& name) const;
  [[nodiscard]] static double share(const Node& node);

  std::vector<std::string> order_;
  std::map<std::string, Node> nodes_;
  std::size_t open_;  // how many are neither ready nor left out nor failed
  std::size_t failed_ = 0;
};

}  // namespace nodestage
