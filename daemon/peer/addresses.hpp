// AddressBook: the addresses of each node. They come from the daemon's settings if these name the
// node, otherwise from the system's resolver. The resolver's answer is kept for a minute, a failure
// for five seconds.
//
// Several threads may call find() at once; it blocks as long as the resolver does. known() never
// blocks. Needs no privilege.
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
using Addresses = std::vector<Address>;  // in the order in which to try them
using Clock = std::chrono::steady_clock;

// Asks the system's resolver; may block for long. A fault gives the cause without the name.
Result<Addresses> resolve(const std::string& name);

class AddressBook {
 public:
  using Resolver = std::function<Result<Addresses>(const std::string& name)>;

  explicit AddressBook(Resolver resolver = resolve) : resolver_(std::move(resolver)) {}

  // Takes "NODE=ADDRESS" pairs before find(); a fault names the first text that is not one.
  Status configure(const std::vector<std::string>& pairs);

  // A fault starts with the node's name. known() returns nothing if a look-up is needed.
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
  std::mutex mutex_;  // for kept_
  std::map<std::string, Kept> kept_;
};

// Returns the form in which addresses are compared: an IPv4 address mapped into IPv6 becomes IPv4,
// and the scope (interface) of an IPv6 address is dropped.
Address comparable(const Address& address);

// Returns the text for messages: "10.0.0.2", "10.0.0.2, fd00::2".
std::string address_text(const Address& address);
std::string address_text(const Addresses& addresses);

}  // namespace nodestage
