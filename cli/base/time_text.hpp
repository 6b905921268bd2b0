// Parses a date or time as a user types it.
#pragma once

#include <cstdint>
#include <string>

#include "common/result.hpp"

namespace nodestage {

// Returns seconds since 1970 of "@SECONDS", "2026-11-21" or "2026-11-21T15:30:00" (UTC).
Result<std::int64_t> parse_moment(const std::string& text);

}  // namespace nodestage
