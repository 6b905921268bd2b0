// Peers: this node's side of the messages between the daemons of a job's nodes
// (common/wire/peer_note.hpp).
//
// Two children do what can block, needs no root, or needs the cluster's key. The signer makes
// credentials, and opens those that a key of the cluster made. nodestage-peer carries them over
// TCP, and has those that arrive opened by MUNGE or by the signer. A child that exits is started
// again. A note that arrives was made by root of a host with the cluster's key, and came from an
// address of the node in `from`. The caller must check whether that node may send it.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/os/file.hpp"
#include "common/settings/config.hpp"
#include "common/wire/daemon_about.hpp"
#include "common/wire/peer_note.hpp"
#include "daemon/root/basis/loop.hpp"
#include "daemon/root/workers/worker_process.hpp"

namespace nodestage {

struct PeerFault {
  enum class Where { none, here, there };
  Where where = Where::none;
  std::string text;  // for users
};

class Peers {
 public:
  // `address` is numeric: the note came from it.
  using OnNote = std::function<void(const PeerNote&, const std::string& address)>;
  // Called once for each node, from the loop, never from the call that sends.
  using OnSent = std::function<void(const std::string& node, const PeerFault& fault)>;
  using OnChange = std::function<void()>;

  Peers(Loop& loop, const Config& config) : loop_(loop), config_(config) {}
  Peers(const Peers&) = delete;
  virtual ~Peers() = default;

  // Starts both children. on_change is called when the words of `credentials` change.
  void start(OnNote on_note, OnChange on_change);
  // Call it after a reload of the configuration, or of the cluster's key.
  void settings_changed();

  [[nodiscard]] const CredentialState& credentials() const { return credentials_; }
  // Returns why the nodes of a job cannot communicate here, as a text for a user; nothing when they
  // can. Once a credential was made, a later failure counts as temporary.
  [[nodiscard]] virtual std::optional<std::string> off() const;
  // Returns why this node has received no notes for longer than peer.silence_wait though others
  // rely on it; nothing when it has.
  [[nodiscard]] virtual std::optional<std::string> broken() const;

  // Sends to all nodes in note.to with as few credentials as possible. Fills in note.sequence.
  virtual void send(PeerNote note, const OnSent& on_sent);
  // Only connects, to find out whether a nodestage-peer listens on that node.
  virtual void probe(const std::string& node, OnSent on_sent);

 private:
  using SignId = std::uint64_t;
  struct Unsigned {  // waits for its credential
    std::vector<std::string> to;
    OnSent on_sent;
  };
  struct Unsent {  // waits to be taken by the other node
    std::string node;
    OnSent on_sent;
    std::shared_ptr<const std::string> credential;  // of up to k_max_note_destinations nodes
  };

  void start_children();
  void look_at_key();
  void take_key_mark(std::string mark);
  void start_signer();
  void start_carrier();
  void start_again(void (Peers::*child)(), std::chrono::seconds& pause);
  void signer_ended();
  void carrier_ended();
  void try_credentials();
  void from_signer(std::string_view packet);
  void from_carrier(std::string_view packet);
  void take(const PeerListening& listening);
  void take(const PeerDelivered& delivered);
  void take(const PeerReceived& received) const;
  void take(CredentialState state);
  void carrier_fails(const std::string& why);
  void watch_carrier();
  void fail_later(const std::string& node, const std::string& why, const OnSent& on_sent);
  void deliver(Unsent unsent);
  void give_carrier();
  std::uint64_t next_sequence();

  Loop& loop_;
  const Config& config_;
  std::optional<Config::Peer> settings_;  // the settings with which the children were started
  OnNote on_note_;
  std::unique_ptr<Helper> signer_;
  std::unique_ptr<Helper> carrier_;
  Fd to_signer_;  // nodestage-peer's end, which the next one gets, too
  OnChange on_change_;
  std::unique_ptr<Helper> looker_;       // at the key's file, for a moment
  std::optional<std::string> key_mark_;  // of the key file with which the signer was started
  std::optional<Loop::TimerId> try_timer_;
  bool has_made_ = false;  // a credential
  CredentialState credentials_;
  std::string carrier_fault_;                        // why it does not listen now
  std::optional<Clock::time_point> carrier_failed_;  // since when
  Clock::time_point carrier_spoke_{};
  std::chrono::seconds signer_pause_{1};  // before the next start
  std::chrono::seconds carrier_pause_{1};
  std::map<SignId, Unsigned> unsigned_;
  std::map<std::uint64_t, Unsent> unsent_;  // nodestage-peer has them
  std::uint64_t next_id_ = 1;
  std::uint64_t sequence_ = 0;
  std::deque<Unsent> ungiven_;  // nodestage-peer gets them when it has sent others
};

}  // namespace nodestage
