// What `nodestage doctor` takes from the configuration of this node's daemon.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace nodestage {

// The section [cache]: what the file lacks has its default.
struct CacheSettings {
  bool enabled = true;
  std::uint64_t keep_free_percent = 20;

  bool operator==(const CacheSettings&) const = default;
};

// Nothing if the file cannot be read or is no TOML. A value that the daemon would refuse counts as
// the default.
std::optional<CacheSettings> read_cache_settings(const std::string& path);

// The section [relay], likewise.
struct RelaySettings {
  bool is_on = true;  // relay.enabled, with a window, and with the barrier
  std::uint16_t first_port = 6826;
  std::uint16_t last_port = 6925;

  bool operator==(const RelaySettings&) const = default;
};
std::optional<RelaySettings> read_relay_settings(const std::string& path);

// Whether this node is kept from being switched off while it holds results (hold.keep_powered), or
// the site is told of it (hold.notify).
bool read_keeps_powered(const std::string& path);

}  // namespace nodestage
