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

}  // namespace nodestage
