// PeerRun: nodestage-peer's library in a thread, with the daemon's end of its channel in the test's
// hand; and plain sockets to talk to it. No MUNGE: a credential is "good" and its payload.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <future>
#include <stdexcept>
#include <string>
#include <thread>

#include "common/os/file.hpp"
#include "common/wire/peer_note.hpp"
#include "common/wire/wire.hpp"
#include "daemon/peer/peer.hpp"

inline constexpr int k_patience_ms = 20'000;  // far more than anything here takes

inline nodestage::Result<std::string> open_fake(const std::string& credential) {
  if (credential.starts_with("good")) return credential.substr(4);
  return nodestage::Error{0, "not a good credential"};
}

inline nodestage::Result<nodestage::Addresses> resolve_loopback(const std::string& name) {
  if (name == "here") return nodestage::Addresses{asio::ip::make_address("127.0.0.1")};
  return nodestage::Error{0, "the name is not known here (test)"};
}

inline std::string note_from(const std::string& node) {
  nodestage::PeerNote note;
  note.to = {"n1"};
  note.from = node;
  note.job = 7;
  note.sequence = 1;
  return nodestage::encode_peer_note(note);
}

inline std::string frame(const std::string& credential) {
  nodestage::WireEncoder length;
  length.u32(static_cast<std::uint32_t>(credential.size()));
  return "NSP1" + length.data() + credential;
}

// What a peer asks waits here until it is opened.
class Gate {
 public:
  template <typename Answer>
  auto before(Answer answer) {
    return [gate = gate_, answer](const std::string& text) {
      gate.wait();
      return answer(text);
    };
  }
  void open() { opened_.set_value(); }

 private:
  std::promise<void> opened_;
  std::shared_future<void> gate_ = opened_.get_future();
};

class PeerRun {
 public:
  explicit PeerRun(nodestage::PeerSettings settings = {},
                   nodestage::Peer::Parts parts = {open_fake, resolve_loopback, {}},
                   int channel_bytes = 0) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
      throw std::runtime_error("socketpair");
    channel_ = nodestage::Fd(ends[0]);
    if (channel_bytes > 0)
      ::setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &channel_bytes, sizeof channel_bytes);
    std::promise<std::uint16_t> chosen;
    port_ = chosen.get_future();
    parts.any_port = [chosen = std::make_shared<std::promise<std::uint16_t>>(std::move(chosen))](
                         std::uint16_t port) { chosen->set_value(port); };
    thread_ = std::thread([this, end = ends[1], parts = std::move(parts)]() mutable {
      nodestage::Peer peer(nodestage::Fd(end), std::move(parts));
      status_ = peer.run();
    });
    if (settings.port == 0) settings.port = 1;  // listens on another; delivers to this one
    if (settings.io_wait_s != 0) say(settings);
  }
  PeerRun(const PeerRun&) = delete;
  PeerRun& operator=(const PeerRun&) = delete;
  ~PeerRun() {
    if (thread_.joinable()) end();
  }

  std::uint16_t port() {
    if (chosen_port_ == 0) chosen_port_ = port_.get();
    return chosen_port_;
  }
  void say(const nodestage::PeerMessage& message) {
    say_raw(nodestage::encode_peer_message(message));
  }
  void say_raw(const std::string& packet) {
    static_cast<void>(::send(channel_.get(), packet.data(), packet.size(), MSG_NOSIGNAL));
  }

  // Waits for it; throws when nothing comes.
  nodestage::PeerMessage hear(int wait_ms = k_patience_ms) {
    pollfd poll{channel_.get(), POLLIN, 0};
    if (::poll(&poll, 1, wait_ms) <= 0) throw std::runtime_error("nothing was said");
    std::string packet(nodestage::k_max_channel_bytes, '\0');
    const ssize_t count = ::recv(channel_.get(), packet.data(), packet.size(), MSG_DONTWAIT);
    if (count <= 0) throw std::runtime_error("the channel is closed");
    packet.resize(static_cast<std::size_t>(count));
    auto message = nodestage::decode_peer_message(packet);
    if (!message) throw std::runtime_error(message.error().what);
    return std::move(*message);
  }
  // The next of this kind; others are passed over.
  template <typename Kind>
  Kind hear_kind() {
    for (;;) {
      auto message = hear();
      if (auto* wanted = std::get_if<Kind>(&message)) return std::move(*wanted);
    }
  }
  [[nodiscard]] bool says_nothing() const {
    pollfd poll{channel_.get(), POLLIN, 0};
    return ::poll(&poll, 1, 0) == 0;
  }
  // What happens when the daemon is gone.
  int end() {
    channel_.reset();
    return wait();
  }
  int wait() {
    thread_.join();
    return status_;
  }

 private:
  nodestage::Fd channel_;
  std::future<std::uint16_t> port_;
  std::uint16_t chosen_port_ = 0;
  std::thread thread_;
  int status_ = -1;
};

inline sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// A connection of a test, to a peer or from one.
class Caller {
 public:
  explicit Caller(nodestage::Fd socket) : socket_(std::move(socket)) {
    const timeval patience{k_patience_ms / 1000, 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  explicit Caller(std::uint16_t port, const char* from = "127.0.0.1")
      : Caller(nodestage::Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))) {
    sockaddr_in own = loopback(0);
    if (::inet_pton(AF_INET, from, &own.sin_addr) != 1 ||
        ::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0) {
      throw std::runtime_error("bind");
    }
    const sockaddr_in address = loopback(port);
    if (::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) !=
        0) {
      throw std::runtime_error("connect");
    }
  }
  void send(const std::string& bytes) const {
    static_cast<void>(::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
  }
  void finish() const { ::shutdown(socket_.get(), SHUT_WR); }
  // All that comes until the other side closes (or resets).
  [[nodiscard]] std::string rest() const {
    std::string all;
    char byte = 0;
    ssize_t count = 0;
    while ((count = ::recv(socket_.get(), &byte, 1, 0)) == 1) all += byte;
    if (count < 0 && errno == EAGAIN) all += " (and it is still open)";
    return all;
  }

 private:
  nodestage::Fd socket_;
};

// A port of the test's own, on 127.0.0.1 only.
class Port {
 public:
  Port() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    auto* const plain = reinterpret_cast<sockaddr*>(&address);
    if (::bind(socket_.get(), plain, size) != 0 || ::listen(socket_.get(), 1024) != 0 ||
        ::getsockname(socket_.get(), plain, &size) != 0) {
      throw std::runtime_error("a port of the test");
    }
    number_ = ntohs(address.sin_port);
  }
  [[nodiscard]] std::uint16_t number() const { return number_; }
  [[nodiscard]] Caller accept() const {
    return Caller(nodestage::Fd(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC)));
  }
  [[nodiscard]] bool is_called(int wait_ms) const {
    pollfd poll{socket_.get(), POLLIN, 0};
    return ::poll(&poll, 1, wait_ms) > 0;
  }
  void close() { socket_.reset(); }

 private:
  nodestage::Fd socket_;
  std::uint16_t number_ = 0;
};
