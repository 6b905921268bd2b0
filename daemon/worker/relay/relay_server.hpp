// RelayServer: listens for successors, and serves each in a thread.
//
// Any host can connect: connections without a proof, their time, and successors are bounded.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "common/result.hpp"
#include "daemon/worker/relay/peer_socket.hpp"
#include "daemon/worker/relay/relay_basis.hpp"
#include "daemon/worker/relay/sealed_stream.hpp"
#include "daemon/worker/relay/slot_table.hpp"
#include "daemon/worker/spool/silence.hpp"

namespace nodestage {

// Successor: one connection from another node's relay worker, which gets one source.
// For a thread of its own.
class Successor {
 public:
  // Takes a connection on which the key has been proved. Borrows the basis and the table.
  Successor(RelayBasis& basis, SlotTable& table, SealedStream stream);

  // Serves until the successor has all, has gone, or was dropped. A fault says why it did not get
  // all.
  Status serve();

 private:
  Result<RelayAsk> receive_ask();
  Result<JoinedFeed> join(const RelayAsk& ask);
  Status leave_or_send_on(const SlotFeed& feed, const std::string& why);
  Status serve_from(const SlotFeed& feed, RingReader& reader);
  Status send_more(RingReader& reader);
  Status send(RelayMessage message, std::span<const std::byte> data);
  Status await_choice(const SlotFeed& feed);
  Status send_last(RelayMessage message, const std::string& why);
  Status leave(const std::string& why);
  Status say_alive();
  Status listen();
  Status check();

  RelayBasis& basis_;
  SlotTable& table_;
  SealedStream stream_;
  RingReader* reader_ = nullptr;
  std::vector<std::byte> block_;
  Silence silence_;
  RelayClock::time_point spoken_ = RelayClock::now();
};

inline constexpr unsigned k_most_unproven = 32;
inline constexpr unsigned k_most_successors = 64;

class RelayServer {
 public:
  // Both are borrowed.
  RelayServer(RelayBasis& basis, SlotTable& table) : basis_(basis), table_(table) {}
  RelayServer(const RelayServer&) = delete;
  RelayServer& operator=(const RelayServer&) = delete;

  // Listens on the order's ports and starts to accept. After a fault, no node can get data from
  // here.
  Status start();
  [[nodiscard]] std::uint16_t port() const { return listener_.port; }

  // Wakes the thread that accepts, which ends once RelayBasis::stop is set.
  void stop() const;

  [[nodiscard]] unsigned successors() const { return proven_; }
  // Returns when the last successor was there, at first when this was made.
  [[nodiscard]] RelayClock::time_point last_served() const { return last_served_; }

 private:
  void accept_all();
  Status accept_one();
  void serve(Fd socket);
  Result<SealedStream> meet(Fd socket);
  Status serve_proven(SealedStream stream);

  RelayBasis& basis_;
  SlotTable& table_;
  RelayListener listener_;
  std::atomic<unsigned> unproven_ = 0;
  std::atomic<unsigned> proven_ = 0;
  std::atomic<RelayClock::time_point> last_served_ = RelayClock::now();
};

}  // namespace nodestage
