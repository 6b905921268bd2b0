// The table of all keys of nodestaged.toml, with what each one accepts.
#pragma once

#include <toml++/toml.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/settings/config.hpp"

namespace nodestage {

// How the settings of nodestaged.toml take their values: a Setter for each kind of value.

// Sets a key from its TOML value. If the value is not allowed, returns the text of what is.
using Setter = std::function<std::optional<std::string>(Config&, const toml::node&)>;

// Where in a Config the value is.
template <typename T>
using Member = std::function<T&(Config&)>;

constexpr std::uint64_t k_no_largest = 1ULL << 62;

Setter number(const Member<std::uint64_t>& member, std::uint64_t smallest, std::uint64_t largest);
Setter boolean(const Member<bool>& member);
// In bytes: a whole number, or a text such as "512MiB".
Setter size(const Member<std::uint64_t>& member);
Setter absolute_path(const Member<std::string>& member);
Setter path_or_empty(const Member<std::string>& member);
// A list of absolute paths, bounded in total by what the worker's order can hold.
Setter directories(const Member<std::vector<std::string>>& member);
// A list of names, at most 10,000.
Setter user_names(const Member<std::vector<std::string>>& member);
// A list of numbers, at most 1,000.
Setter group_ids(const Member<std::vector<std::uint64_t>>& member);
// A table of names of nodes, each with an IP address or a list of them: "n1=10.0.0.1" for each.
Setter addresses(const Member<std::vector<std::string>>& member);

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

// Setters of one key each.
std::optional<std::string> set_cache_keeper(Config& config, const toml::node& node);
std::optional<std::string> set_peer_user(Config& config, const toml::node& node);
std::optional<std::string> set_relay_file_systems(Config& config, const toml::node& node);
std::optional<std::string> set_relay_ports(Config& config, const toml::node& node);
std::optional<std::string> set_tmpdir_path(Config& config, const toml::node& node);

struct ConfigKey {
  const char* section;
  const char* name;
  Setter set;
};

// Those of a section are neighbors.
const std::vector<ConfigKey>& all_config_keys();

}  // namespace nodestage
