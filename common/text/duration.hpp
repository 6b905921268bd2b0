// Parses a length of time as a user types it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace nodestage {

// Returns the seconds of "900", "900s", "15m", "1h", or "2d"; nothing for any other text, and for
// what 64 bits cannot hold.
std::optional<std::uint64_t> parse_duration(std::string_view text);

}  // namespace nodestage
