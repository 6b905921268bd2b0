// RelayServer: listens for successors, and serves each in a thread.
//
// Any host can connect: connections without a proof, their time, and successors are bounded.
#pragma once

#include <atomic>
#include <cstdint>

#include "daemon/worker/relay/peer_socket.hpp"
#include "daemon/worker/relay/relay_basis.hpp"
#include "daemon/worker/relay/slot_table.hpp"

namespace nodestage {

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
