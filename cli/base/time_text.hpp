// A date or time as a user types it.
#pragma once

#include <cstdint>
#include <string>

#include "common/result.hpp"

namespace nodestage {

// Seconds since 1970 from "@SECONDS", "2026-11-21" or "2026-11-21T15:30:00" (both UTC). EINVAL.
Result<std::int64_t> parse_moment(const std::string& text);

}  // namespace nodestage
