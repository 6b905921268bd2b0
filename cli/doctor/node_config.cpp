#include "cli/doctor/node_config.hpp"

#include <fcntl.h>
#include <toml++/toml.h>

#include "common/os/file.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_max_bytes = 1 << 20;

}  // namespace

std::optional<CacheSettings> read_cache_settings(const std::string& path) {
  const auto text = read_file(AT_FDCWD, path, k_max_bytes);
  if (!text) return {};
  CacheSettings settings;
  try {
    const toml::table document = toml::parse(*text);
    const auto cache = document["cache"];
    settings.enabled = cache["enabled"].value_exact<bool>().value_or(settings.enabled);
    const auto percent = cache["keep_free"].value_exact<std::int64_t>();
    if (percent && *percent >= 0 && *percent <= 100)
      settings.keep_free_percent = static_cast<std::uint64_t>(*percent);
  } catch (const toml::parse_error&) {  // thrown by the library
    return {};
  }
  return settings;
}

}  // namespace nodestage
