#include "cli/doctor/node_config.hpp"

#include <fcntl.h>
#include <toml++/toml.h>

#include "common/os/file.hpp"
#include "common/text/parsing.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_max_bytes = 1 << 20;

std::optional<toml::table> document_at(const std::string& path) {
  const auto text = read_file(AT_FDCWD, path, k_max_bytes);
  if (!text) return {};
  try {
    return toml::parse(*text);
  } catch (const toml::parse_error&) {  // thrown by the library
    return {};
  }
}

// A number, or a text such as "0GiB", which starts with one.
bool is_nothing(const toml::node_view<const toml::node>& size) {
  if (const auto number = size.value_exact<std::int64_t>()) return *number == 0;
  const auto text = size.value_exact<std::string>();
  if (!text) return false;
  std::string_view rest = *text;
  return take_number<std::uint64_t>(rest) == 0U;
}

void take_ports(const std::string& text, RelaySettings& settings) {
  std::string_view rest = text;
  const auto first = take_number<std::uint16_t>(rest);
  if (!first || !rest.starts_with('-')) return;
  rest.remove_prefix(1);
  const auto last = take_number<std::uint16_t>(rest);
  if (!last || !rest.empty() || *first < 1024 || *last < *first) return;
  settings.first_port = *first;
  settings.last_port = *last;
}

}  // namespace

std::optional<CacheSettings> read_cache_settings(const std::string& path) {
  const std::optional<toml::table> document = document_at(path);
  if (!document) return {};
  CacheSettings settings;
  const auto cache = (*document)["cache"];
  settings.enabled = cache["enabled"].value_exact<bool>().value_or(settings.enabled);
  const auto percent = cache["keep_free"].value_exact<std::int64_t>();
  if (percent && *percent >= 0 && *percent <= 100)
    settings.keep_free_percent = static_cast<std::uint64_t>(*percent);
  return settings;
}

std::optional<RelaySettings> read_relay_settings(const std::string& path) {
  const std::optional<toml::table> document = document_at(path);
  if (!document) return {};
  RelaySettings settings;
  const auto relay = (*document)["relay"];
  settings.is_on = relay["enabled"].value_exact<bool>().value_or(true) &&
                   !is_nothing(relay["window"]) &&
                   (*document)["peer"]["barrier"].value_exact<std::string>() != "off";
  if (const auto ports = relay["ports"].value_exact<std::string>()) take_ports(*ports, settings);
  return settings;
}

bool read_keeps_powered(const std::string& path) {
  const std::optional<toml::table> document = document_at(path);
  if (!document) return false;
  const auto hold = (*document)["hold"];
  return hold["keep_powered"].value_exact<bool>().value_or(false) ||
         !hold["notify"].value_exact<std::string>().value_or("").empty();
}

}  // namespace nodestage
