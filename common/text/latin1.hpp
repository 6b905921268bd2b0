// User and job names and paths may be any bytes; JSON wants UTF-8, and Latin-1 maps each byte to a
// code point. There and back gives the same bytes.
#pragma once

#include <string>
#include <string_view>

namespace nodestage {

std::string latin1_to_utf8(std::string_view bytes);
// Of what latin1_to_utf8() has made.
std::string utf8_to_latin1(std::string_view text);

}  // namespace nodestage
