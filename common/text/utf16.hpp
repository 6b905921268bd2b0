// Decodes texts that Windows has written.
#pragma once

#include <string>
#include <string_view>

namespace nodestage {

// Returns the text as UTF-8, without a byte order mark: decoded if it starts with that of UTF-16;
// as it is otherwise. What is not valid becomes U+FFFD.
std::string utf8_of(std::string_view bytes);

}  // namespace nodestage
