// What a descriptor's reader makes of escape codes.
#pragma once

#include <string>
#include <string_view>

namespace nodestage {

// A terminal that moves its cursor when told. `type`: its user's TERM; "dumb" is one that does not.
bool obeys_escapes(int fd, std::string_view type);
// The same, with TERM of this process.
bool obeys_escapes(int fd);

// What is shown on standard output may have colour: a terminal, and no NO_COLOR (no-color.org).
bool shows_colour();

enum class Ink { plain, red, yellow };
std::string inked(const std::string& text, Ink ink);

}  // namespace nodestage
