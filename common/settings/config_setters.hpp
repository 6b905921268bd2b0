// How the settings of nodestaged.toml take their values: a Setter for each kind of value. For
// config.cpp, which has the table of all keys.
#pragma once

#include <arpa/inet.h>
#include <toml++/toml.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/settings/config.hpp"
#include "common/text/glob_text.hpp"
#include "common/text/parsing.hpp"

namespace nodestage {

// Sets a key from its TOML value. If the value is not allowed, returns the text of what is.
using Setter = std::function<std::optional<std::string>(Config&, const toml::node&)>;

// Where in a Config the value is.
template <typename T>
using Member = std::function<T&(Config&)>;

// The Setter for values that `read` takes: it returns what the node says, or nothing if that is not
// allowed. `allowed` says what is.
template <typename T, typename Read>
Setter setter(const Member<T>& member, const std::string& allowed, Read read) {
  return [=](Config& config, const toml::node& node) -> std::optional<std::string> {
    std::optional<T> value = read(node);
    if (!value) return allowed;
    member(config) = std::move(*value);
    return {};
  };
}

inline constexpr std::uint64_t k_no_largest = 1ULL << 62;

inline std::optional<std::uint64_t> to_bytes(std::string_view unit) {
  const auto value = take_number<std::uint64_t>(unit);
  if (!value) return {};
  static constexpr std::string_view k_units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  for (std::size_t i = 0; i < std::size(k_units); ++i) {
    if (unit == k_units[i] && *value <= k_no_largest >> (10 * i)) return *value << (10 * i);
  }
  return {};
}

inline Setter number(const Member<std::uint64_t>& member, std::uint64_t smallest,
                     std::uint64_t largest) {
  return setter(
      member, "a whole number from " + std::to_string(smallest) + " to " + std::to_string(largest),
      [=](const toml::node& node) -> std::optional<std::uint64_t> {
        const auto value = node.value_exact<std::int64_t>();
        if (!value || *value < 0) return {};
        const auto number = static_cast<std::uint64_t>(*value);
        return number >= smallest && number <= largest ? std::optional(number) : std::nullopt;
      });
}

inline Setter boolean(const Member<bool>& member) {
  return setter(member, "true or false",
                [](const toml::node& node) { return node.value_exact<bool>(); });
}

// In bytes: a whole number, or a text such as "512MiB".
inline Setter size(const Member<std::uint64_t>& member) {
  return setter(member, "a number of bytes, or a text such as \"512MiB\" (B, KiB, MiB, GiB, TiB)",
                [](const toml::node& node) -> std::optional<std::uint64_t> {
                  if (const auto text = node.value_exact<std::string>()) return to_bytes(*text);
                  const auto value = node.value_exact<std::int64_t>();
                  if (!value || *value < 0) return {};
                  return static_cast<std::uint64_t>(*value);
                });
}

// A text for which `is_right` is true.
template <typename IsRight>
Setter text(const Member<std::string>& member, std::string allowed, IsRight is_right) {
  return setter(member, std::move(allowed), [=](const toml::node& node) {
    auto value = node.value_exact<std::string>();
    if (value && !is_right(*value)) value.reset();
    return value;
  });
}

inline bool is_absolute(const std::string& path) {
  return path.starts_with('/') && !path.ends_with('/');
}

inline Setter absolute_path(const Member<std::string>& member) {
  return text(member, "an absolute path", is_absolute);
}

inline Setter path_or_empty(const Member<std::string>& member) {
  return text(member, "an absolute path, or \"\"",
              [](const std::string& path) { return path.empty() || is_absolute(path); });
}

inline Setter user_name(const Member<std::string>& member) {
  return text(member, "the name of a user, not root",
              [](const std::string& name) { return !name.empty() && name != "root"; });
}

template <typename Enum>
Setter choice(Member<Enum> member, std::vector<std::pair<std::string, Enum>> choices) {
  return [=](Config& config, const toml::node& node) -> std::optional<std::string> {
    const auto text = node.value_exact<std::string>();
    std::string allowed = "one of";
    for (const auto& [name, value] : choices) {
      if (text == name) {
        member(config) = value;
        return {};
      }
      allowed += " \"" + name + "\"";
    }
    return allowed;
  };
}

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

// In all bounded by what the worker's order can hold.
inline Setter directories(const Member<std::vector<std::string>>& member) {
  return setter(member, "a list of absolute paths, in all at most 16 KiB",
                [](const toml::node& node) {
                  std::size_t bytes = 0;
                  auto paths = list_of<std::string>(node, [&bytes](const std::string& path) {
                    bytes += path.size();
                    return path.starts_with('/');
                  });
                  if (bytes > 16 * 1024) paths.reset();
                  return paths;
                });
}

// A list of at most `most` texts, each of which is right.
template <typename IsRight>
Setter texts(const Member<std::vector<std::string>>& member, std::size_t most, std::string allowed,
             IsRight is_right) {
  return setter(member, std::move(allowed), [=](const toml::node& node) {
    auto list = list_of<std::string>(node, is_right);
    if (list && list->size() > most) list.reset();
    return list;
  });
}

inline Setter user_names(const Member<std::vector<std::string>>& member) {
  return texts(member, 10'000, "a list of at most 10000 names of users",
               [](const std::string& name) { return !name.empty(); });
}

inline Setter file_systems(const Member<std::vector<std::string>>& member) {
  return texts(member, 100, "a list of at most 100 types of file systems, such as [\"nfs4\"]",
               [](const std::string& type) { return !type.empty() && type.size() <= 64; });
}

inline Setter group_ids(const Member<std::vector<std::uint64_t>>& member) {
  return setter(member, "a list of at most 1000 numbers of groups",
                [](const toml::node& node) -> std::optional<std::vector<std::uint64_t>> {
                  const auto ids = list_of<std::int64_t>(node, [](std::int64_t id) {
                    return id >= 1 && id < std::numeric_limits<std::uint32_t>::max();
                  });
                  if (!ids || ids->size() > 1000) return {};
                  return std::vector<std::uint64_t>(ids->begin(), ids->end());
                });
}

inline bool is_address(const std::string& text) {
  in6_addr address{};
  return ::inet_pton(AF_INET, text.c_str(), &address) == 1 ||
         ::inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

// All addresses go to nodestage-peer in one message (common/wire/peer_note.hpp).
inline constexpr std::size_t k_max_addresses_bytes = 96 * 1024;

// [peer.addresses]: n1 = "10.0.0.1" or n1 = ["10.0.0.1", "10.1.0.1"].
inline std::optional<std::string> to_addresses(const toml::node& node,
                                               std::vector<std::string>& into) {
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

inline Setter addresses(const Member<std::vector<std::string>>& member) {
  return [=](Config& config, const toml::node& node) { return to_addresses(node, member(config)); };
}

// "6826-6925"
inline std::optional<std::string> set_relay_ports(Config& config, const toml::node& node) {
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

inline std::optional<std::string> set_tmpdir_path(Config& config, const toml::node& node) {
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

}  // namespace nodestage
