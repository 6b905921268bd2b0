// PlayedNodes: the daemons of a job's other nodes, as its first node sees them. Each has a name
// (c0001, c0002, …), an address of its own, its own connections, and notes with real credentials.
// Node n sends again what was not taken, after one to two seconds, and what it reports as long as
// it knows no verdict, as daemon/root/jobs/peer_talk.cpp does. One thread.
//
// All addresses must be local: `ip route add local NET.0.0/16 dev lo` makes them so.
#pragma once

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/wire/peer_note.hpp"
#include "daemon/root/nodes/key_credentials.hpp"

namespace nodestage {

// By MUNGE, as uid 0 for the user of nodestage-peer and back, or by a key of the cluster.
class PlayedCredentials {
 public:
  // An empty key_file: by MUNGE.
  static Result<PlayedCredentials> by(const std::string& key_file);

  Result<std::string> make(const std::string& payload);
  Result<std::string> open(const std::string& credential);

 private:
  std::uint32_t peer_uid_ = 0;
  std::optional<KeyCredentials> keys_;
};

class PlayedNodes {
 public:
  using Time = std::chrono::steady_clock::time_point;

  struct Job {
    std::uint32_t number = 0;
    std::string first_name;
    asio::ip::address first;
    std::string net = "10.78";  // the first half of the nodes' addresses
    std::size_t count = 0;      // of the played nodes
  };
  struct Counts {
    std::size_t sent = 0;         // notes, also those that were not taken
    std::size_t not_taken = 0;    // refused, closed, or without an answer in time
    std::size_t open_notes = 0;   // that came, with an open verdict
    std::size_t verdicts = 0;     // that came
    std::size_t credentials = 0;  // different ones that came
  };

  PlayedNodes(asio::io_context& io, Job job, PlayedCredentials credentials);
  Status listen();

  // Of the nodes from `first` to `last`, counted from 1: sends `note` from each at once, all
  // credentials made before. `joins`: the nodes also take part in the relay, up to the answer.
  enum class Joins { no, yes };
  Status report(std::size_t first, std::size_t last, const NodeNote& note, Joins joins);

  [[nodiscard]] bool are_taken(std::size_t first, std::size_t last) const;
  [[nodiscard]] bool have_answers(std::size_t first, std::size_t last) const;
  [[nodiscard]] bool have_verdicts(std::size_t first, std::size_t last) const;

  [[nodiscard]] const Counts& counts() const { return counts_; }
  [[nodiscard]] Time sent() const { return sent_; }             // the last report() began to send
  [[nodiscard]] Time taken() const { return taken_; }           // the last note was
  [[nodiscard]] Time last_verdict() const { return verdict_; }  // came
  [[nodiscard]] Time first_verdict() const { return verdict_first_; }  // since the last report()
  [[nodiscard]] Time last_answer() const { return answer_; }           // of the relay came
  [[nodiscard]] std::string words(std::size_t first) const;  // of the verdict: "ready", "failed: …"

 private:
  struct Node {
    std::string name;
    asio::ip::address address;
    std::optional<NodeNote> state;
    bool is_taken = false;
    bool has_answer = false;
    bool joins = false;
    std::optional<JobNote> verdict;
    std::uint64_t round = 0;  // of reports: what is left of an earlier one is not repeated
  };
  using OnDone = std::function<void(bool is_taken)>;

  PeerNote note_of(std::size_t index);
  void start(std::size_t index, const std::shared_ptr<std::deque<std::string>>& credentials);
  void send(std::size_t index, std::string credential, OnDone on_done);
  void send_state(std::size_t index, std::string credential);
  void repeat(std::size_t index, std::chrono::milliseconds pause);
  void join(std::size_t index);
  void accept();
  void take(std::size_t index, const std::string& credential);
  void hear(std::size_t index, const PeerNote& note);
  [[nodiscard]] std::chrono::milliseconds interval() const;

  asio::io_context& io_;
  Job job_;
  PlayedCredentials credentials_;
  std::vector<Node> nodes_;
  std::unordered_map<std::string, std::size_t> by_address_;
  std::unordered_map<std::string, std::optional<PeerNote>>
      opened_;  // one credential is for many nodes
  asio::ip::tcp::acceptor acceptor_;
  std::uint64_t sequence_ = 0;
  Counts counts_;
  Time sent_{};
  Time taken_{};
  Time verdict_{};
  Time answer_{};
  Time verdict_first_{};
};

}  // namespace nodestage
