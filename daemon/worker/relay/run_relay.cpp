#include "daemon/worker/relay/run_relay.hpp"

#include <unistd.h>

#include "common/wire/status_file.hpp"
#include "daemon/worker/basis/log.hpp"
#include "daemon/worker/relay/relay.hpp"

namespace nodestage {
namespace {

// For threads to end; only one that hangs in a file system takes longer.
constexpr std::chrono::seconds k_end_limit{2};

int report(WorkerPhase phase, const std::string& cause, std::uint16_t port) {
  StatusHeader header{};
  header.magic = k_status_magic;
  header.phase = static_cast<std::uint32_t>(phase);
  header.relay_port = port;
  set_field(header.cause, cause);
  const Status written = write_status_header(k_worker_status_fd, header);
  if (!written) log_line(written.error().text());
  return phase == WorkerPhase::failed ? 1 : 0;
}

int fail(const std::string& cause) {
  log_line("relay: failed: " + cause);
  return report(WorkerPhase::failed, cause, 0);
}

}  // namespace

int run_relay(const RelayOrder& order) {
  if (!order.has_board) return fail("the daemon has given no board");
  auto relay = Relay::make(order, {});
  if (!relay) return fail(relay.error().text());
  const std::uint16_t port = (*relay)->listen();
  if (port == 0) log_line("relay: no port to listen on: " + (*relay)->no_port());
  report(WorkerPhase::working, "", port);
  (*relay)->run();
  const int code = report(WorkerPhase::done, "", 0);
  if (!(*relay)->await_end(RelayClock::now() + k_end_limit)) ::_exit(code);
  return code;
}

}  // namespace nodestage
