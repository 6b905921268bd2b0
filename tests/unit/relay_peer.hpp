// A peer of a relay worker that a test plays by hand: both ends of a connection, and what an honest
// or a forged side sends.
#pragma once

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>

#include "daemon/worker/relay/sealed_stream.hpp"

namespace nodestage {

inline const std::atomic<bool> k_never_stop = false;
inline constexpr RelayKey k_test_key = {1, 2, 3};

inline RelayClock::time_point soon() { return RelayClock::now() + std::chrono::minutes(1); }

struct Ends {
  Fd one;
  Fd other;
  Ends() {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    one = Fd(ends[0]);
    other = Fd(ends[1]);
  }
};

// The end that the test holds. It speaks in bytes.
class RawPeer {
 public:
  explicit RawPeer(Fd fd) : fd_(std::move(fd)) {}

  void send(const std::string& bytes) const {
    std::size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t count =
          ::send(fd_.get(), bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
      if (count <= 0) return;  // the other side has gone
      done += static_cast<std::size_t>(count);
    }
  }
  // So many bytes; fewer at the end of the stream.
  [[nodiscard]] std::string read(std::size_t bytes) const {
    std::string got(bytes, '\0');
    std::size_t done = 0;
    while (done < bytes) {
      pollfd entry{fd_.get(), POLLIN, 0};
      if (::poll(&entry, 1, 60'000) <= 0) break;
      const ssize_t count = ::recv(fd_.get(), got.data() + done, bytes - done, 0);
      if (count <= 0) break;
      done += static_cast<std::size_t>(count);
    }
    got.resize(done);
    return got;
  }
  void close() { fd_.reset(); }

  // The handshake of an honest side; what it sent is in `said`.
  void meet_as_client(const RelayKey& key = k_test_key) {
    nonces_.client = *new_relay_nonce();
    say("nsrelay1" + text(nonces_.client));
    take(nonces_.server);
    static_cast<void>(read(32));
    say(text(*prove(key, RelaySide::client, nonces_)));
    set_ciphers(key, RelaySide::client, RelaySide::server);
  }
  void meet_as_server(const RelayKey& key = k_test_key) {
    static_cast<void>(read(8));
    take(nonces_.client);
    nonces_.server = *new_relay_nonce();
    say(text(nonces_.server) + text(*prove(key, RelaySide::server, nonces_)));
    static_cast<void>(read(32));
    set_ciphers(key, RelaySide::server, RelaySide::client);
  }

  // The next frame's bytes. Ciphers count frames.
  std::string seal(std::uint8_t kind, const std::string& data) {
    std::string frame(5 + data.size() + 16, '\0');
    for (unsigned i = 0; i < 4; ++i) frame[i] = static_cast<char>(data.size() >> (8 * i));
    frame[4] = static_cast<char>(kind);
    const auto bytes = std::as_writable_bytes(std::span(frame));
    REQUIRE(sealing_->seal(bytes.first(5), std::as_bytes(std::span(data)),
                           bytes.subspan(5, data.size()), bytes.last<16>()));
    return frame;
  }
  void say(RelayMessage message, const std::string& data = {}) {
    send(seal(static_cast<std::uint8_t>(message), data));
  }
  // The next frame that is not `alive`; its kind is 0 at the end of the stream.
  std::pair<RelayMessage, std::string> hear() {
    for (;;) {
      std::string frame = read(5);
      if (frame.size() < 5) return {};
      std::size_t length = 0;
      for (unsigned i = 0; i < 4; ++i)
        length |= static_cast<std::size_t>(static_cast<unsigned char>(frame[i])) << (8 * i);
      frame += read(length + 16);
      if (frame.size() < length + 21) return {};
      const auto bytes = std::as_writable_bytes(std::span(frame));
      REQUIRE(opening_->open(bytes.first(5), bytes.subspan(5, length), bytes.last<16>()));
      const auto kind = static_cast<RelayMessage>(frame[4]);
      if (kind != RelayMessage::alive) return {kind, frame.substr(5, length)};
    }
  }

  std::string said;

 private:
  template <typename Array>
  static std::string text(const Array& bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  void take(RelayNonce& nonce) const {
    const std::string bytes = read(nonce.size());
    std::memcpy(nonce.data(), bytes.data(), bytes.size());
  }
  void say(const std::string& bytes) {
    said += bytes;
    send(bytes);
  }
  void set_ciphers(const RelayKey& key, RelaySide own, RelaySide others) {
    sealing_.emplace(std::move(*FrameCipher::sealing(*derive_keys(key, own, nonces_))));
    opening_.emplace(std::move(*FrameCipher::opening(*derive_keys(key, others, nonces_))));
  }

  Fd fd_;
  RelayNonces nonces_;
  std::optional<FrameCipher> sealing_;
  std::optional<FrameCipher> opening_;
};

// A TCP listener or connection for a RawPeer on this host.
struct RawListener {
  Fd fd{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  std::uint16_t port = 0;
  RawListener() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* at = reinterpret_cast<sockaddr*>(&address);
    REQUIRE(::bind(fd.get(), at, size) == 0);
    REQUIRE(::listen(fd.get(), 8) == 0);
    REQUIRE(::getsockname(fd.get(), at, &size) == 0);
    port = ntohs(address.sin_port);
  }
  [[nodiscard]] RawPeer accept() const {
    return RawPeer(Fd(::accept4(fd.get(), nullptr, nullptr, SOCK_CLOEXEC)));
  }
};

inline RawPeer raw_connect(std::uint16_t port) {
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  REQUIRE(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  return RawPeer(std::move(fd));
}

}  // namespace nodestage
