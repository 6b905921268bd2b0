#include "daemon/peer/addresses.hpp"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <asio/ip/tcp.hpp>
#include <memory>

#include "common/text/human.hpp"

namespace nodestage {
namespace {

constexpr std::chrono::seconds k_keep{60};
constexpr std::chrono::seconds k_keep_fault{5};
constexpr std::size_t k_max_kept = 16'384;
constexpr std::size_t k_max_addresses = 16;
constexpr std::size_t k_max_name_bytes = 255;  // of DNS

bool is_name(const std::string& name) {
  return !name.empty() && name.size() <= k_max_name_bytes && name.find('\0') == std::string::npos;
}

Address address_of(const addrinfo& entry) {
  asio::ip::tcp::endpoint endpoint;
  endpoint.resize(entry.ai_addrlen);
  std::copy_n(reinterpret_cast<const char*>(entry.ai_addr), entry.ai_addrlen,
              reinterpret_cast<char*>(endpoint.data()));
  return endpoint.address();
}

std::string cause_of(int fault) {
  if (fault == EAI_SYSTEM) return system_error("the name could not be looked up").what;
  const bool unknown = fault == EAI_NONAME || fault == EAI_NODATA;
  return std::string(unknown ? "the name is not known here" : "the name could not be looked up") +
         " (" + ::gai_strerror(fault) + ")";
}

}  // namespace

// Without AI_ADDRCONFIG: an address without a route fails at connect, and notes may come from any.
Result<Addresses> resolve(const std::string& name) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int fault = ::getaddrinfo(name.c_str(), nullptr, &hints, &found);
  if (fault != 0) return Error{fault == EAI_SYSTEM ? errno : 0, cause_of(fault)};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> entries(found, ::freeaddrinfo);
  Addresses addresses;
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    const bool is_ip = entry->ai_family == AF_INET || entry->ai_family == AF_INET6;
    if (is_ip && addresses.size() < k_max_addresses) addresses.push_back(address_of(*entry));
  }
  if (addresses.empty()) return Error{0, "the name has no IP address"};
  return addresses;
}

Status AddressBook::configure(const std::vector<std::string>& pairs) {
  for (const std::string& pair : pairs) {
    const std::size_t equals = pair.find('=');
    std::error_code fault;
    const std::string text = equals == std::string::npos ? "" : pair.substr(equals + 1);
    const Address address = asio::ip::make_address(text, fault);
    if (fault || equals == 0) {
      return Error{EINVAL, "'" + printable(shortened(pair, 80)) +
                               "' of peer.addresses is not a node's name with an IP address"};
    }
    configured_[pair.substr(0, equals)].push_back(address);
  }
  return {};
}

std::optional<Result<Addresses>> AddressBook::known(const std::string& node,
                                                    Clock::time_point now) {
  if (const auto listed = configured_.find(node); listed != configured_.end())
    return Result<Addresses>(listed->second);
  const std::lock_guard lock(mutex_);
  const auto kept = kept_.find(node);
  if (kept == kept_.end() || kept->second.until <= now) return {};
  return kept->second.answer;
}

Result<Addresses> AddressBook::find(const std::string& node, Clock::time_point now) {
  if (!is_name(node)) return Error{EINVAL, "not the name of a node"};
  if (auto answer = known(node, now)) return std::move(*answer);
  Result<Addresses> answer = resolver_(node);
  if (!answer) answer.error().what = printable(node) + ": " + answer.error().what;
  keep(node, answer, now);
  return answer;
}

void AddressBook::keep(const std::string& node, const Result<Addresses>& answer,
                       Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  if (kept_.size() >= k_max_kept) {
    std::erase_if(kept_, [now](const auto& item) { return item.second.until <= now; });
  }
  if (kept_.size() >= k_max_kept) kept_.clear();
  kept_.insert_or_assign(node, Kept{answer, now + (answer ? k_keep : k_keep_fault)});
}

Address comparable(const Address& address) {
  if (!address.is_v6()) return address;
  auto v6 = address.to_v6();
  if (v6.is_v4_mapped()) return asio::ip::make_address_v4(asio::ip::v4_mapped, v6);
  v6.scope_id(0);
  return v6;
}

std::string address_text(const Address& address) { return comparable(address).to_string(); }

std::string address_text(const Addresses& addresses) {
  std::string text;
  for (const Address& address : addresses)
    text += (text.empty() ? "" : ", ") + address_text(address);
  return text;
}

}  // namespace nodestage
