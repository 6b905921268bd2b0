// FakeDaemon: a server thread that speaks the protocol as a test tells it to.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "common/os/file.hpp"
#include "common/wire/protocol.hpp"

// One end of a conversation, as the daemon sees it.
class FakePeer {
 public:
  explicit FakePeer(nodestage::Fd fd) : fd_(std::move(fd)) {}

  // The next message of the client; an Accepted when it has closed.
  nodestage::Message hear() {
    std::string packet(nodestage::k_max_message_bytes, '\0');
    const ssize_t count = ::recv(fd_.get(), packet.data(), packet.size(), 0);
    auto message = nodestage::decode_message(
        std::string_view(packet).substr(0, count > 0 ? static_cast<std::size_t>(count) : 0));
    return message ? message.value() : nodestage::Message(nodestage::Accepted{});
  }
  void say(const nodestage::Message& message) { say_raw(nodestage::encode_message(message)); }
  void say_raw(const std::string& packet) {
    static_cast<void>(::send(fd_.get(), packet.data(), packet.size(), MSG_NOSIGNAL));
  }

 private:
  nodestage::Fd fd_;
};

// Serves one connection per script, in order, then closes. The destructor waits for the last.
class FakeDaemon {
 public:
  using Script = std::function<void(FakePeer&)>;

  FakeDaemon(const std::string& path, std::vector<Script> scripts)
      : listener_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    ::unlink(path.c_str());  // of an earlier one
    if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
        ::listen(listener_.get(), 8) != 0) {
      throw std::runtime_error("fake daemon: " + path);
    }
    thread_ = std::thread([this, scripts = std::move(scripts)] {
      for (const auto& script : scripts) {
        FakePeer peer(nodestage::Fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)));
        script(peer);
      }
      listener_.reset();
    });
  }
  // Gives that answer to whatever is asked.
  static Script answer(const nodestage::Message& message) {
    return [message](FakePeer& peer) {
      static_cast<void>(peer.hear());
      peer.say(message);
    };
  }
  FakeDaemon(const FakeDaemon&) = delete;
  FakeDaemon& operator=(const FakeDaemon&) = delete;
  ~FakeDaemon() { thread_.join(); }

 private:
  nodestage::Fd listener_;
  std::thread thread_;
};
