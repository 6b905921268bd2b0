// AddressBook: which addresses a node has. From the daemon's settings where they name the node,
// else from the system, kept for a minute (a failure for five seconds).
//
// find() may be called by several threads at once and may block for as long as the system's
// resolver does; known() never blocks. Needs no privilege.
#pragma once

#include <asio/ip/address.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "common/result.hpp"

namespace nodestage {

using Address = asio::ip::address;
using Addresses = std::vector<Address>;  // in the order in which they are to be tried
using Clock = std::chrono::steady_clock;

// Asks the system; may block for long. `what` of a fault says why without the name.
Result<Addresses> resolve(const std::string& name);

class AddressBook {
 public:
  using Resolver = std::function<Result<Addresses>(const std::string& name)>;

  explicit AddressBook(Resolver resolver = resolve) : resolver_(std::move(resolver)) {}

  // "NODE=ADDRESS" each. A fault for a text that is no such pair. Before the first find().
  Status configure(const std::vector<std::string>& pairs);

  // Faults are sentences that begin with the node's name.
  Result<Addresses> find(const std::string& node, Clock::time_point now = Clock::now());
  std::optional<Result<Addresses>> known(const std::string& node,
                                         Clock::time_point now = Clock::now());

 private:
  struct Kept {
    Result<Addresses> answer;
    Clock::time_point until;
  };
  void keep(const std::string& node, const Result<Addresses>& answer, Clock::time_point now);

  Resolver resolver_;
  std::map<std::string, Addresses> configured_;
  std::mutex mutex_;  // of kept_
  std::map<std::string, Kept> kept_;
};

// Addresses as they are compared: an IPv4 address inside IPv6 is IPv4, and the interface that an
// IPv6 address came by does not count.
Address comparable(const Address& address);

// For messages: "10.0.0.2", "10.0.0.2, fd00::2".
std::string address_text(const Address& address);
std::string address_text(const Addresses& addresses);

}  // namespace nodestage
