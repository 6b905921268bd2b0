// Relay: a node's relay worker. It gets each source of its job that is asked for once, from the
// node before or from the original, and passes it on: to this node's staging worker by the spool,
// and to other nodes' relay workers by TCP.
//
// Threads: the caller's of run() (the board), one that accepts, one for each slot that is being
// filled, one for each connection. Only the kernel's file systems can make one of them wait without
// a limit; the others go on then, and report to those who wait for data that this process is alive.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "common/result.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/worker/budget/meter.hpp"
#include "daemon/worker/relay/relay_basis.hpp"
#include "daemon/worker/relay/sealed_stream.hpp"
#include "daemon/worker/relay/slot_table.hpp"
#include "daemon/worker/spool/board.hpp"

namespace nodestage {

// Any host can connect to the port: connections without a proof are bounded, and successors are.
inline constexpr unsigned k_most_unproven = 32;
inline constexpr unsigned k_most_successors = 64;

class RelayServer;

class Relay {
 public:
  // Borrowed.
  struct Descriptors {
    int board = k_worker_board_fd;
    int spool = k_worker_spool_fd;
    int plan = k_worker_answer_fd;
    int rate = k_worker_rate_fd;
  };
  // Borrows the order. Refuses a board that cannot be used.
  static Result<std::unique_ptr<Relay>> make(const RelayOrder& order,
                                             const Descriptors& descriptors,
                                             OpenOriginal open = open_original);
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;
  // Waits for all threads.
  ~Relay();

  // Listens and returns the port, or 0: no_port() says why, and only this node is served.
  std::uint16_t listen();
  [[nodiscard]] const std::string& no_port() const { return no_port_; }

  // Returns when the staging is over and no successor has been there for a while, when the plan or
  // the staging worker says that nothing is relayed, or after stop().
  void run();
  // Makes run() return. Any thread.
  void stop();
  // Waits for the end of all threads after stop() or run(), and returns whether all have ended by
  // `until`. Empties the spool if nothing is relayed.
  bool await_end(RelayClock::time_point until);

 private:
  Relay(const RelayOrder& order, const Descriptors& descriptors, Board board, OpenOriginal open);
  [[nodiscard]] bool is_off();
  [[nodiscard]] bool is_over();

  Board board_;
  RateLimit rate_;
  const int plan_fd_;
  std::string no_port_;
  bool is_planned_ = false;
  RelayBasis basis_;
  SlotTable table_;
  std::unique_ptr<RelayServer> server_;
  std::optional<RelayClock::time_point> staging_over_since_;
};

// Runs the worker's task `relay`: gets sources from other nodes, and passes them on.

// Uses the descriptors of worker_order.hpp. Writes the status file: phase `working` once it listens
// (or cannot), then `done`, or `failed` with the cause. Returns the exit code.
int run_relay(const RelayOrder& order);

}  // namespace nodestage
