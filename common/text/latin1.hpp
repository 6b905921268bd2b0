// User names, job names and paths can be any bytes, but JSON needs UTF-8: reads each byte as
// Latin-1, so that the round trip gives the same bytes.
#pragma once

#include <string>
#include <string_view>

namespace nodestage {

std::string latin1_to_utf8(std::string_view bytes);
// `text` must be a result of latin1_to_utf8().
std::string utf8_to_latin1(std::string_view text);

}  // namespace nodestage
