#include "daemon/peer/peer.hpp"

#include <unistd.h>

#include <algorithm>

namespace nodestage {
namespace {

constexpr std::chrono::seconds k_port_retry{5};

// The rest remains for notes to other nodes.
std::size_t connections_by(std::size_t descriptors) {
  return descriptors - std::max(descriptors / 4, std::min<std::size_t>(descriptors / 2, 256));
}

}  // namespace

Peer::Peer(Fd channel, Parts parts)
    : book_(parts.resolver),
      parts_(std::move(parts)),
      channel_(io_, std::move(channel)),
      listener_(io_),
      retry_(io_),
      background_(io_) {}

int Peer::run() {
  channel_.listen([this](PeerMessage message) { hear(std::move(message)); },
                  [this](const Status& status) { end(status); });
  io_.run();
  return status_;
}

void Peer::hear(PeerMessage message) {
  if (auto* order = std::get_if<PeerDeliver>(&message); order != nullptr && outgoing_)
    return outgoing_->deliver(std::move(*order));
  if (const auto* settings = std::get_if<PeerSettings>(&message);
      settings != nullptr && !outgoing_) {
    return set_up(*settings);
  }
  end(Error{EPROTO, "a message out of turn"});
}

void Peer::set_up(const PeerSettings& settings) {
  if (const Status taken = take(settings); !taken) return fail_to_listen(taken.error().what);
  const auto port = static_cast<std::uint16_t>(settings.port);
  const std::chrono::seconds io_wait(settings.io_wait_s);
  outgoing_.emplace(Delivery::Means{io_, background_, book_, port, io_wait}, channel_);
  incoming_.emplace(io_, background_, channel_, Incoming::Limits{io_wait, connections(settings)},
                    [this](const std::string& credential, const Address& source) {
                      return verified_note(credential, source, parts_.open, book_);
                    });
  port_ = parts_.any_port ? std::uint16_t{0} : port;
  open_port();
}

std::size_t Peer::connections(const PeerSettings& settings) const {
  const std::size_t most = connections_by(parts_.descriptors);
  if (settings.max_connections <= most) return settings.max_connections;
  ::dprintf(STDERR_FILENO,
            "nodestage-peer: at most %zu connections can be open at once, and not %u "
            "(peer.max_connections), since this process may open %zu files (LimitNOFILE of "
            "nodestaged.service)\n",
            most, settings.max_connections, parts_.descriptors);
  return most;
}

void Peer::open_port() {
  listener_.open(port_, [this](const Status& status) { opened(status); });
}

Status Peer::take(const PeerSettings& settings) {
  if (settings.port == 0 || settings.port > 65'535) {
    return Error{EINVAL, std::to_string(settings.port) + " is not a TCP port"};
  }
  if (settings.io_wait_s == 0 || settings.io_wait_s > 86'400 || settings.max_connections == 0) {
    return Error{EINVAL, "a limit that is not allowed (peer.io_wait, peer.max_connections)"};
  }
  return book_.configure(settings.addresses);
}

// Without the port, nodestage-peer can still send. The port is tried again.
void Peer::opened(const Status& status) {
  if (!status) {
    channel_.say(PeerListening{status.error().what});
    set_timer(retry_, k_port_retry, [this] { open_port(); });
    return;
  }
  if (parts_.any_port) parts_.any_port(listener_.port());
  channel_.say(PeerListening{});
  listener_.serve([this] { return incoming_->has_room(); },
                  [this](asio::ip::tcp::socket socket) { incoming_->accept(std::move(socket)); },
                  [this] { incoming_->drop_one("closed: nodestage-peer has no descriptor left"); });
}

void Peer::fail_to_listen(const std::string& fault) {
  channel_.say(PeerListening{fault});
  status_ = 1;
  io_.stop();
}

void Peer::end(const Status& status) {
  if (!status) {
    ::dprintf(STDERR_FILENO, "nodestage-peer: from nodestaged: %s\n", status.error().what.c_str());
    status_ = 1;
  }
  io_.stop();
}

}  // namespace nodestage
