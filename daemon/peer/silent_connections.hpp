// SilentConnections: those that have not sent a whole frame yet, by their age and their address, so
// that one address which opens many of them cannot keep out the others. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>

#include "daemon/peer/addresses.hpp"
#include "daemon/peer/connection.hpp"

namespace nodestage {

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

}  // namespace nodestage
