// Makes text of others printable and bounded in one step.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "common/text/human.hpp"

namespace nodestage {

// Returns printable() text of at most `bytes` bytes, escapes included; "..." replaces the middle of
// a longer one, between two characters. `bytes` is at least 3.
std::string printable_within(std::string_view text, std::size_t bytes,
                             Newlines newlines = Newlines::escape);

}  // namespace nodestage
