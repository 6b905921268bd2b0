// Peers: this node's side of the talk between the daemons of a job's nodes
// (common/wire/peer_note.hpp).
//
// Two children do what may block or needs no root: the signer makes MUNGE credentials, and
// nodestage-peer carries them over TCP and opens those that come in. A child that ends is started
// again. What comes in was made by root of a host that has the cluster's MUNGE key and came from an
// address of the node in `from`; whether that node may say it is for the caller to check.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/wire/peer_channel.hpp"
#include "common/wire/peer_note.hpp"
#include "daemon/root/basis/config.hpp"
#include "daemon/root/basis/loop.hpp"
#include "daemon/root/workers/helper.hpp"

namespace nodestage {

struct PeerFault {
  enum class Where { none, here, there };
  Where where = Where::none;
  std::string text;  // for people
};

class Peers {
 public:
  using OnNote = std::function<void(const PeerNote&)>;
  // Once for each node, from the loop, never from the call that sends.
  using OnSent = std::function<void(const std::string& node, const PeerFault& fault)>;

  Peers(Loop& loop, const Config& config) : loop_(loop), config_(config) {}
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;
  virtual ~Peers() = default;

  void start(OnNote on_note);
  // After a reload of the configuration.
  void settings_changed();

  // Why the nodes of a job cannot talk here, for a user; nothing when they can. MUNGE that has
  // answered once is only away for a while, and counts as there.
  [[nodiscard]] virtual std::optional<std::string> off() const;
  // Why this node cannot hear others although they rely on it, for longer than peer.silence_wait.
  [[nodiscard]] virtual std::optional<std::string> broken() const;

  // To all nodes in note.to, in as few credentials as may be; note.sequence is filled in here.
  virtual void send(PeerNote note, const OnSent& on_sent);
  // Only connects, to see whether a nodestage-peer listens there.
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
  };

  void start_signer();
  void start_carrier();
  void try_munge();
  void start_again(void (Peers::*child)(), std::chrono::seconds& pause);
  void from_signer(std::string_view packet);
  void from_carrier(std::string_view packet);
  void take(const PeerListening& listening);
  void take(const PeerDelivered& delivered);
  void take(const PeerReceived& received) const;
  void carrier_fails(const std::string& why);
  void watch_carrier();
  void fail_later(const std::string& node, const std::string& why, const OnSent& on_sent);
  void deliver(const std::string& node, const std::string& credential, OnSent on_sent);
  void signer_ended();
  void carrier_ended();
  std::uint64_t next_sequence();

  Loop& loop_;
  const Config& config_;
  std::optional<Config::Peer> settings_;  // of the children that run
  OnNote on_note_;
  std::unique_ptr<Helper> signer_;
  std::unique_ptr<Helper> carrier_;
  std::optional<Loop::TimerId> munge_timer_;
  bool munge_answered_ = false;
  std::string munge_fault_;
  std::string carrier_fault_;                        // why it does not listen now
  std::optional<Clock::time_point> carrier_failed_;  // since when
  Clock::time_point carrier_spoke_{};
  std::chrono::seconds signer_pause_{1};  // before the next start
  std::chrono::seconds carrier_pause_{1};
  std::map<SignId, Unsigned> unsigned_;
  std::map<std::uint64_t, Unsent> unsent_;
  std::uint64_t next_id_ = 1;
  std::uint64_t sequence_ = 0;
};

}  // namespace nodestage
