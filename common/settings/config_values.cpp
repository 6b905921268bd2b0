#include "common/settings/config_values.hpp"

#include <arpa/inet.h>

#include <limits>
#include <string_view>

#include "common/text/name_pattern.hpp"
#include "common/text/parsing.hpp"

namespace nodestage {
namespace {

std::optional<std::uint64_t> to_bytes(std::string_view unit) {
  const auto value = take_number<std::uint64_t>(unit);
  if (!value) return {};
  static constexpr std::string_view k_units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  for (std::size_t i = 0; i < std::size(k_units); ++i) {
    if (unit == k_units[i] && *value <= k_no_largest >> (10 * i)) return *value << (10 * i);
  }
  return {};
}

bool is_address(const std::string& text) {
  in6_addr address{};
  return ::inet_pton(AF_INET, text.c_str(), &address) == 1 ||
         ::inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

// All addresses go to nodestage-peer in one message (common/wire/peer_channel.hpp).
constexpr std::size_t k_max_addresses_bytes = 96 * 1024;

// [peer.addresses]: n1 = "10.0.0.1" or n1 = ["10.0.0.1", "10.1.0.1"].
std::optional<std::string> to_addresses(const toml::node& node, std::vector<std::string>& into) {
  const std::string allowed = "a table of names of nodes, each with an address or a list of them";
  if (!node.is_table()) return allowed;
  into.clear();
  std::size_t bytes = 0;
  for (const auto& [name, value] : *node.as_table()) {
    toml::array one;
    if (!value.is_array()) one.push_back(value);
    for (const auto& address : value.is_array() ? *value.as_array() : one) {
      const auto text = address.value_exact<std::string>();
      if (!text || !is_address(*text)) return allowed;
      into.push_back(std::string(name.str()) + "=" + *text);
      bytes += into.back().size() + sizeof(std::uint32_t);
    }
  }
  if (bytes > k_max_addresses_bytes) return "at most 96 KiB: let the system resolve the names";
  return {};
}

}  // namespace

Setter number(const Member<std::uint64_t>& member, std::uint64_t smallest, std::uint64_t largest) {
  return [=](Config& config, const toml::node& node) -> std::optional<std::string> {
    const auto value = node.value_exact<std::int64_t>();
    if (value && *value >= 0 && static_cast<std::uint64_t>(*value) >= smallest &&
        static_cast<std::uint64_t>(*value) <= largest) {
      member(config) = static_cast<std::uint64_t>(*value);
      return {};
    }
    return "a whole number from " + std::to_string(smallest) + " to " + std::to_string(largest);
  };
}

Setter boolean(const Member<bool>& member) {
  return [=](Config& config, const toml::node& node) -> std::optional<std::string> {
    const auto value = node.value_exact<bool>();
    if (!value) return "true or false";
    member(config) = *value;
    return {};
  };
}

Setter size(const Member<std::uint64_t>& member) {
  return [=](Config& config, const toml::node& node) -> std::optional<std::string> {
    std::optional<std::uint64_t> bytes;
    if (const auto text = node.value_exact<std::string>()) bytes = to_bytes(*text);
    if (const auto value = node.value_exact<std::int64_t>(); value && *value >= 0) {
      bytes = static_cast<std::uint64_t>(*value);
    }
    if (!bytes) return "a number of bytes, or a text such as \"512MiB\" (B, KiB, MiB, GiB, TiB)";
    member(config) = *bytes;
    return {};
  };
}

Setter absolute_path(const Member<std::string>& member) {
  return [=](Config& config, const toml::node& node) -> std::optional<std::string> {
    const auto text = node.value_exact<std::string>();
    if (!text || !text->starts_with('/') || text->ends_with('/')) return "an absolute path";
    member(config) = *text;
    return {};
  };
}

Setter path_or_empty(const Member<std::string>& member) {
  return [=](Config& config, const toml::node& node) -> std::optional<std::string> {
    const auto text = node.value_exact<std::string>();
    if (!text || (!text->empty() && (!text->starts_with('/') || text->ends_with('/'))))
      return "an absolute path, or \"\"";
    member(config) = *text;
    return {};
  };
}

namespace {

// The values of a list whose elements are all of that type and right; none of anything else.
template <typename T, typename IsRight>
std::optional<std::vector<T>> list_of(const toml::node& node, IsRight is_right) {
  const auto* list = node.as_array();
  if (list == nullptr) return {};
  std::vector<T> values;
  for (const auto& element : *list) {
    const auto value = element.value_exact<T>();
    if (!value || !is_right(*value)) return {};
    values.push_back(*value);
  }
  return values;
}

}  // namespace

Setter directories(const Member<std::vector<std::string>>& member) {
  return [=](Config& config, const toml::node& node) -> std::optional<std::string> {
    std::size_t bytes = 0;
    auto paths = list_of<std::string>(node, [&bytes](const std::string& path) {
      bytes += path.size();
      return path.starts_with('/');
    });
    if (!paths || bytes > 16 * 1024) return "a list of absolute paths, in all at most 16 KiB";
    member(config) = std::move(*paths);
    return {};
  };
}

Setter user_names(const Member<std::vector<std::string>>& member) {
  return [=](Config& config, const toml::node& node) -> std::optional<std::string> {
    auto names = list_of<std::string>(node, [](const std::string& name) { return !name.empty(); });
    if (!names || names->size() > 10'000) return "a list of at most 10000 names of users";
    member(config) = std::move(*names);
    return {};
  };
}

Setter group_ids(const Member<std::vector<std::uint64_t>>& member) {
  return [=](Config& config, const toml::node& node) -> std::optional<std::string> {
    const auto ids = list_of<std::int64_t>(node, [](std::int64_t id) {
      return id >= 1 && id < std::numeric_limits<std::uint32_t>::max();
    });
    if (!ids || ids->size() > 1000) return "a list of at most 1000 numbers of groups";
    member(config).assign(ids->begin(), ids->end());
    return {};
  };
}

Setter addresses(const Member<std::vector<std::string>>& member) {
  return [=](Config& config, const toml::node& node) { return to_addresses(node, member(config)); };
}

// "6826-6925"
std::optional<std::string> set_relay_ports(Config& config, const toml::node& node) {
  const std::string allowed = "a range of ports from 1024 on, such as \"6826-6925\"";
  const auto text = node.value_exact<std::string>();
  if (!text) return allowed;
  std::string_view rest = *text;
  const auto first = take_number<std::uint16_t>(rest);
  if (!first || !rest.starts_with('-')) return allowed;
  rest.remove_prefix(1);
  const auto last = take_number<std::uint16_t>(rest);
  if (!last || !rest.empty() || *first < 1024 || *last < *first) return allowed;
  config.relay.ports = {*first, *last};
  return {};
}

std::optional<std::string> set_relay_file_systems(Config& config, const toml::node& node) {
  const std::string allowed = "a list of at most 100 types of file systems, such as [\"nfs4\"]";
  const auto* list = node.as_array();
  if (list == nullptr || list->size() > 100) return allowed;
  std::vector<std::string> types;
  for (const auto& value : *list) {
    const auto text = value.value_exact<std::string>();
    if (!text || text->empty() || text->size() > 64) return allowed;
    types.push_back(*text);
  }
  config.relay.file_systems = std::move(types);
  return {};
}

std::optional<std::string> set_tmpdir_path(Config& config, const toml::node& node) {
  const std::string allowed =
      "an absolute path of which only the last part holds patterns, %j among them "
      "(%j job id, %u user, %r restart count), such as \"/localscratch/%u.%j.0\"";
  const auto text = node.value_exact<std::string>();
  if (!text || !text->starts_with('/') || text->ends_with('/')) return allowed;
  const std::size_t slash = text->rfind('/');
  const std::string name = text->substr(slash + 1);
  if (slash == 0 || text->find('%') < slash || name.find("%j") == std::string::npos) return allowed;
  PatternFacts facts;
  facts.user = "u";
  if (!expand_pattern(name, facts) || names_node(name)) return allowed;
  config.tmpdir.path = *text;
  return {};
}

namespace {

std::optional<std::string> set_user(std::string& user, const toml::node& node) {
  const auto text = node.value_exact<std::string>();
  if (!text || text->empty() || *text == "root") return "the name of a user, not root";
  user = *text;
  return {};
}

}  // namespace

std::optional<std::string> set_peer_user(Config& config, const toml::node& node) {
  return set_user(config.peer.user, node);
}

std::optional<std::string> set_cache_keeper(Config& config, const toml::node& node) {
  return set_user(config.cache.keeper, node);
}

}  // namespace nodestage
