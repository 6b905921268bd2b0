// Peer: all of nodestage-peer except its process: messages from the daemon, the port, and
// connections both ways. It keeps no state of jobs and reads no user's data. Needs no privilege.
#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <optional>

#include "common/os/file.hpp"
#include "common/wire/peer_note.hpp"
#include "daemon/peer/addresses.hpp"
#include "daemon/peer/channel.hpp"
#include "daemon/peer/credential.hpp"
#include "daemon/peer/incoming.hpp"
#include "daemon/peer/outgoing.hpp"

namespace nodestage {

class Peer {
 public:
  struct Parts {
    OpenCredential open;
    AddressBook::Resolver resolver = resolve;
    // Tests set it: listens on a port that the kernel chooses instead of the settings' port, and
    // reports it here before it says PeerListening.
    std::function<void(std::uint16_t port)> any_port;
    std::size_t descriptors = 65'536;  // as many as this process can have open
  };

  Peer(Fd channel, Parts parts);

  // Runs until the daemon closes its end of the channel. Returns 0; or 1 if the settings are wrong
  // (reported to the daemon) or a message of the daemon makes no sense (reported on fd 2). The
  // destructor waits for look-ups that have started.
  int run();

 private:
  void hear(PeerMessage message);
  void set_up(const PeerSettings& settings);
  Status take(const PeerSettings& settings);
  [[nodiscard]] std::size_t connections(const PeerSettings& settings) const;
  void open_port();
  void opened(const Status& status);
  void end(const Status& status);
  void fail_to_listen(const std::string& fault);

  // Threads are destroyed first, then what they and the pending operations refer to.
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
