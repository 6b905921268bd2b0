// Decodes Base64 (RFC 4648), with or without padding.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace nodestage {

// Returns the bytes; nothing if the text has another character than the alphabet's.
std::optional<std::string> from_base64(std::string_view text);
// Does the same, which also takes the alphabet for URLs and file names ('-' and '_').
std::optional<std::string> from_base64url(std::string_view text);

}  // namespace nodestage
