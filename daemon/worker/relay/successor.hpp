// Successor: one connection from another node's relay worker, which gets one source.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "common/result.hpp"
#include "daemon/worker/relay/relay_basis.hpp"
#include "daemon/worker/relay/relay_message.hpp"
#include "daemon/worker/relay/sealed_stream.hpp"
#include "daemon/worker/relay/slot_table.hpp"
#include "daemon/worker/spool/silence.hpp"

namespace nodestage {

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

}  // namespace nodestage
