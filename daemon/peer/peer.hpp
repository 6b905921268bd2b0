// Peer: all of nodestage-peer but its process: what it hears from the daemon, the port, the
// connections both ways. Keeps no state of jobs and reads no user's data. Needs no privilege.
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "common/os/fd.hpp"
#include "common/wire/peer_channel.hpp"
#include "daemon/peer/addresses.hpp"
#include "daemon/peer/background.hpp"
#include "daemon/peer/channel.hpp"
#include "daemon/peer/credential.hpp"
#include "daemon/peer/incoming.hpp"
#include "daemon/peer/listener.hpp"
#include "daemon/peer/outgoing.hpp"

namespace nodestage {

class Peer {
 public:
  struct Parts {
    OpenCredential open = munge_opener();
    AddressBook::Resolver resolver = resolve;
    // For tests: listens on a port of the kernel's choice instead of the settings' and tells it
    // here, before it says PeerListening.
    std::function<void(std::uint16_t port)> any_port;
  };

  Peer(Fd channel, Parts parts);

  // Until the daemon's end of the channel is closed: 0. 1 when the settings are wrong (which the
  // daemon was told) or when the daemon's words make no sense (told on fd 2). The destructor waits
  // for look-ups that have begun.
  int run();

 private:
  void hear(PeerMessage message);
  void set_up(const PeerSettings& settings);
  Status take(const PeerSettings& settings);
  void open_port();
  void opened(const Status& status);
  void end(const Status& status);
  void fail_to_listen(const std::string& fault);

  // The threads go first, then what they and the pending operations refer to.
  asio::io_context io_{1};
  AddressBook book_;
  Parts parts_;
  Channel channel_;
  Listener listener_;
  asio::steady_timer retry_;
  std::uint16_t port_ = 0;
  std::optional<Incoming> incoming_;
  std::optional<Outgoing> outgoing_;
  Background background_;
  int status_ = 0;
};

}  // namespace nodestage
