// Channel: nodestage-peer's end of the packets to and from nodestaged
// (common/wire/peer_note.hpp). Never blocks. One thread. Faults of sending are not reported; the
// end of the channel is.
#pragma once

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <asio/thread_pool.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <string>
#include <utility>

#include "common/os/file.hpp"
#include "common/wire/peer_note.hpp"

namespace nodestage {

// Calls `due` once, unless the timer is set again, cancelled or destroyed before.
template <typename Due>
void set_timer(asio::steady_timer& timer, std::chrono::milliseconds time, Due due) {
  timer.expires_after(time);
  timer.async_wait([due = std::move(due)](const std::error_code& ec) {
    if (!ec) due();
  });
}

enum class Offered { taken, full, gone };

class Channel {
 public:
  using OnMessage = std::function<void(PeerMessage)>;
  // The daemon has closed its end, or (a fault) has sent a packet that cannot be decoded.
  using OnEnd = std::function<void(const Status&)>;

  Channel(asio::io_context& io, Fd socket) : socket_(io, socket.release()) {}

  // Calls on_message for each packet, and on_end once.
  void listen(OnMessage on_message, OnEnd on_end);

  // Sends now or drops the message.
  [[nodiscard]] Offered offer(const PeerMessage& message);
  // Sends now or when there is room, in order, and then calls on_sent.
  using OnSent = std::function<void()>;
  void say(const PeerMessage& message, OnSent on_sent = {});
  // How many messages wait for room.
  [[nodiscard]] std::size_t unsent() const { return unsent_.size(); }

 private:
  enum class Read { packet, nothing, end };
  struct Unsent {
    std::string packet;
    OnSent on_sent;
  };
  void await_packets();
  void read_packets();
  Read read_packet();
  Read end(const Status& status);
  Offered send(const std::string& packet);
  void await_room();

  asio::posix::stream_descriptor socket_;
  OnMessage on_message_;
  OnEnd on_end_;
  std::string packet_;
  std::deque<Unsent> unsent_;
};

// Background: a few threads for calls that block (munged, the resolver). Results are handed back in
// the io_context's thread; a job must not touch anything else.

inline constexpr std::size_t k_background_threads = 4;

// Must be destroyed before the io_context. The destructor drops jobs that have not started and
// waits for those that have.
class Background {
 public:
  explicit Background(asio::io_context& io) : io_(io), threads_(k_background_threads) {}
  Background(const Background&) = delete;
  ~Background() {
    threads_.stop();
    threads_.join();
  }

  // Runs job() in a thread, then done(result) in the io_context. The caller bounds their number.
  template <typename Job, typename Done>
  void run(Job job, Done done) {
    asio::post(threads_, [&io = io_, job = std::move(job), done = std::move(done)]() mutable {
      auto result = job();
      asio::post(io, [done = std::move(done), result = std::move(result)]() mutable {
        done(std::move(result));
      });
    });
  }

 private:
  asio::io_context& io_;
  asio::thread_pool threads_;
};

}  // namespace nodestage
