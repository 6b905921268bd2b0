#include "daemon/worker/relay/relay_server.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/basis/log.hpp"
#include "daemon/worker/basis/thread_group.hpp"
#include "daemon/worker/relay/successor.hpp"

namespace nodestage {
namespace {

using std::chrono::milliseconds;

constexpr std::chrono::seconds k_handshake_limit{5};
constexpr milliseconds k_accept_step{500};
constexpr milliseconds k_pause{100};  // when there are too many, or no descriptor is left

}  // namespace

Status RelayServer::start() {
  const auto& order = basis_.order;
  TRY_ASSIGN(listener_, listen_for_peers(order.relay.ports.first, order.relay.ports.last));
  if (basis_.threads.start([this] { accept_all(); })) return {};
  listener_ = RelayListener{};
  return Error{EAGAIN, "no thread can be started"};
}

void RelayServer::stop() const {
  if (listener_.fd) static_cast<void>(::shutdown(listener_.fd.get(), SHUT_RDWR));
}

void RelayServer::accept_all() {
  while (!basis_.stop) {
    pollfd entry{listener_.fd.get(), POLLIN, 0};
    const bool is_ready = ::poll(&entry, 1, static_cast<int>(k_accept_step.count())) > 0;
    if (proven_ > 0) last_served_ = RelayClock::now();
    if (!is_ready) continue;
    if (unproven_ >= k_most_unproven || !accept_one()) std::this_thread::sleep_for(k_pause);
  }
}

Status RelayServer::accept_one() {
  auto socket = std::make_shared<Fd>(
      ::accept4(listener_.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!*socket) return system_error("accept");
  ++unproven_;
  if (basis_.threads.start([this, socket] { serve(std::move(*socket)); })) return {};
  --unproven_;
  return Error{EAGAIN, "no thread can be started"};
}

// Before this node knows its own plan, it does not know the key either.
Result<SealedStream> RelayServer::meet(Fd socket) {
  const std::shared_ptr<void> proven(nullptr, [this](void*) { --unproven_; });
  const RelayPlan plan = basis_.plan.await(
      RelayClock::now() + std::chrono::seconds(basis_.order.relay.answer_wait_s), basis_.stop);
  if (plan.part != RelayPart::head && plan.part != RelayPart::link)
    return Error{0, "this node has no key"};
  return SealedStream::meet(PeerSocket(std::move(socket), basis_.stop), RelaySide::server, plan.key,
                            RelayClock::now() + std::min(k_handshake_limit, basis_.silence()));
}

Status RelayServer::serve_proven(SealedStream stream) {
  if (proven_ > k_most_successors) return Error{EAGAIN, "there are too many already"};
  return Successor(basis_, table_, std::move(stream)).serve();
}

void RelayServer::serve(Fd socket) {
  const Status status = guarded([this, &socket]() -> Status {
    auto stream = meet(std::move(socket));
    if (!stream) return std::move(stream.error());
    ++proven_;
    Status served = guarded([&] { return serve_proven(std::move(*stream)); });
    --proven_;
    last_served_ = RelayClock::now();
    return served;
  });
  if (!status && !is_stopped(status.error()))
    log_line("relay: a node that asked for data did not get all: " + status.error().what);
}

}  // namespace nodestage
