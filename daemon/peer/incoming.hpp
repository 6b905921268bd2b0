// Incoming: the connections of other nodes, and what becomes of their notes. The daemon has a note
// before its sender hears that it was taken. One thread.
//
// When max_connections are open, the oldest one that has not sent a whole frame within k_grace is
// closed for the next. An address that has more than its share of those, an eighth of
// max_connections, has no such time, and its oldest is the first to go. Those that have sent a
// frame are served first, however many nodes report at the same moment: meanwhile, the kernel keeps
// the next ones.
#pragma once

#include <array>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>

#include "common/result.hpp"
#include "daemon/peer/addresses.hpp"
#include "daemon/peer/channel.hpp"
#include "daemon/peer/credential.hpp"

namespace nodestage {

// Connection: one incoming connection, from accept to close: magic, length, credential, and one
// byte back, all within one limit. It does not look into the credential. One thread; a pending
// operation keeps it alive.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Self = std::shared_ptr<Connection>;
  // Called when a whole frame has arrived; the connection waits for answer().
  using OnCredential = std::function<void(const Self&, std::string credential)>;
  // Called once, when the connection is closed. `why` is empty when there is nothing to report.
  using OnEnd = std::function<void(const Self&, const std::string& why)>;

  Connection(asio::ip::tcp::socket socket, const Address& source);

  void start(std::chrono::seconds limit, OnCredential on_credential, OnEnd on_end);
  void await_daemon();               // the credential is good: the daemon has to take the note
  void answer(char reply);           // k_peer_taken or k_peer_refused; then closes
  void end(const std::string& why);  // like answer(), does nothing once ended

  [[nodiscard]] const Address& source() const { return source_; }

 private:
  enum class Awaits { frame, check, daemon, reply_taken };
  void read_header();
  void take_header(const std::error_code& ec, std::size_t count);
  void read_credential(std::size_t length);
  void time_out(std::chrono::seconds limit);

  asio::ip::tcp::socket socket_;
  asio::steady_timer timer_;
  Address source_;
  OnCredential on_credential_;
  OnEnd on_end_;
  std::array<char, 8> header_{};
  std::string credential_;
  char reply_ = 0;
  Awaits awaits_ = Awaits::frame;
  bool ended_ = false;
};

// SilentConnections: those that have not sent a whole frame yet, by their age and their address, so
// that one address which opens many of them cannot keep out the others. One thread.
class SilentConnections {
 public:
  using Number = std::uint64_t;  // of a connection: the oldest has the least
  struct Silent {
    Connection::Self connection;
    Clock::time_point since;
    std::size_t of_address = 1;  // how many its address has
  };

  void add(Number number, const Connection::Self& connection, Clock::time_point now = Clock::now());
  // Does nothing if it is not one of them.
  void remove(Number number, const Address& source);

  [[nodiscard]] bool empty() const { return sources_.empty(); }
  [[nodiscard]] std::size_t size() const { return sources_.size(); }
  // Returns the oldest one of the address that has most, if these are more than `share`; else the
  // oldest of all. There must be one.
  [[nodiscard]] Silent first_to_go(std::size_t share) const;

 private:
  struct One {
    Connection::Self connection;
    Clock::time_point since;
  };
  using OfAddress = std::map<Number, One>;
  struct Rank {
    std::size_t count;
    Number oldest;
    Address address;
    bool operator<(const Rank& other) const {
      return std::tie(other.count, oldest) < std::tie(count, other.oldest);
    }
  };
  static Rank rank_of(const Address& address, const OfAddress& all);

  std::map<Address, OfAddress> of_;
  std::set<Rank> ranks_;               // the first has most
  std::map<Number, Address> sources_;  // of all
};

// DropReports: reports connections that brought nothing of use, at most k_drops_a_second. Anybody
// on the network can cause such connections, so further ones are only counted, and the count is
// reported.

inline constexpr unsigned k_drops_a_second = 50;

class DropReports {
 public:
  DropReports(asio::io_context& io, Channel& channel) : timer_(io), channel_(channel) {}

  void report(const std::string& address, const std::string& why);

 private:
  void begin_second();
  void end_second();

  asio::steady_timer timer_;  // runs while reported_ or unreported_ is not 0
  Channel& channel_;
  std::uint64_t reported_ = 0;
  std::uint64_t unreported_ = 0;
};

// Listener: the TCP port on every address of the host, IPv6 with IPv4 if the kernel has IPv6. One
// thread; needs no privilege for ports from 1024 on.

inline constexpr std::chrono::seconds k_port_patience{3};

class Listener {
 public:
  using OnOpen = std::function<void(const Status&)>;
  using HasRoom = std::function<bool()>;  // for the next connection, which waits
  using OnAccept = std::function<void(asio::ip::tcp::socket)>;
  using OnFull = std::function<void()>;  // no descriptor is left: close something

  using Clock = std::chrono::steady_clock;

  // A port in use is tried again until `patience` is over: the nodestage-peer of an earlier daemon
  // may be about to exit.
  explicit Listener(asio::io_context& io, std::chrono::milliseconds patience = k_port_patience)
      : patience_(patience), acceptor_(io), timer_(io) {}

  // Calls on_open once. Port 0: the kernel chooses one.
  void open(std::uint16_t port, OnOpen on_open);
  [[nodiscard]] std::uint16_t port() const;

  void serve(HasRoom has_room, OnAccept on_accept, OnFull on_full);

 private:
  void try_open(std::uint16_t port, Clock::time_point until);
  std::error_code bind(const asio::ip::tcp::endpoint& endpoint);
  void accept_next();
  void accept_one();

  std::chrono::milliseconds patience_;
  asio::ip::tcp::acceptor acceptor_;
  asio::steady_timer timer_;
  OnOpen on_open_;
  HasRoom has_room_;
  OnAccept on_accept_;
  OnFull on_full_;
};

// Longer than the least time after which TCP sends again (200 ms).
inline constexpr std::chrono::milliseconds k_grace{300};

class Incoming {
 public:
  struct Limits {
    std::chrono::seconds io_wait{5};
    std::size_t max_connections = 1024;
  };
  // Called in background threads. Returns the note.
  using Check = std::function<Result<std::string>(const std::string& credential, const Address&)>;

  Incoming(asio::io_context& io, Background& background, Channel& channel, Limits limits,
           Check check)
      : background_(background),
        channel_(channel),
        drops_(io, channel),
        limits_(limits),
        check_(std::move(check)) {}

  // Returns whether there is room for one more connection, and may close a silent one for it.
  [[nodiscard]] bool has_room();
  // Takes ownership of the connection.
  void accept(asio::ip::tcp::socket socket);
  // Closes the silent one that is first to go, else the oldest. Does nothing when none is open.
  void drop_one(const std::string& why);

 private:
  using Number = SilentConnections::Number;

  void judge(Number number, const Connection::Self& connection, std::string credential);
  void settle(const Connection::Self& connection, Result<std::string> payload);
  void refuse(const Connection::Self& connection, const std::string& why);
  void forget(Number number, const Connection::Self& connection, const std::string& why);

  Background& background_;
  Channel& channel_;
  DropReports drops_;
  Limits limits_;
  Check check_;
  Number next_ = 0;
  SilentConnections silent_;
  std::map<Number, Connection::Self> served_;  // have sent a whole frame
  std::size_t checking_ = 0;                   // counts connections that were closed meanwhile, too
};

}  // namespace nodestage
