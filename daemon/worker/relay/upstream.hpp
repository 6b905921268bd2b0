// Upstream: the connection to the node before, for one source.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "common/result.hpp"
#include "common/wire/relay_plan.hpp"
#include "daemon/worker/relay/relay_message.hpp"
#include "daemon/worker/relay/sealed_stream.hpp"
#include "daemon/worker/spool/silence.hpp"

namespace nodestage {

// For one thread. After any fault, go on without it.
class Upstream {
 public:
  struct Limits {
    std::chrono::milliseconds silence;
    std::uint64_t socket_bytes;  // as of socket_bytes_for()
    const std::atomic<bool>& stop;
  };
  // Connects, proves the key, and asks. Fails with ETIMEDOUT if the node is silent for too long.
  static Result<Upstream> ask(const RelayPlan& plan, const RelayAsk& ask, const Limits& limits);

  // What next() returns; nullopt: nothing came for a moment. Fails with ETIMEDOUT as above.
  struct Word {
    RelayMessage message;
    std::span<const std::byte> data;  // until the next call
  };
  Result<std::optional<Word>> next();

  // Sends `alive` if it is due. Call it every second while nothing is taken.
  Status say_alive();

 private:
  Upstream(SealedStream stream, const Limits& limits);
  Status send(RelayMessage message, std::span<const std::byte> data);

  SealedStream stream_;
  Limits limits_;
  Silence silence_;  // only while it is listened to
  RelayClock::time_point spoken_ = RelayClock::now();
};

}  // namespace nodestage
