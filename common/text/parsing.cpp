#include "common/text/parsing.hpp"

#include <limits>

namespace nodestage {
namespace {

// 0 for a text that is not a unit.
std::uint64_t seconds_of(std::string_view unit) {
  if (unit.empty() || unit == "s") return 1;
  if (unit == "m") return 60;
  if (unit == "h") return 3600;
  return unit == "d" ? 86'400 : 0;
}

}  // namespace

std::optional<std::uint64_t> parse_duration(std::string_view text) {
  const auto count = take_number<std::uint64_t>(text);
  const std::uint64_t unit = seconds_of(text);
  if (!count || unit == 0 || *count > std::numeric_limits<std::uint64_t>::max() / unit) return {};
  return *count * unit;
}

}  // namespace nodestage
