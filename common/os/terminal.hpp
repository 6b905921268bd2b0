// Whether a descriptor's reader interprets escape codes, and colored text.
#pragma once

#include <string>
#include <string_view>

namespace nodestage {

// Whether `fd` is a terminal that can move its cursor. `type` is its TERM; "dumb" means it cannot.
bool obeys_escapes(int fd, std::string_view type);
// The same, with this process's TERM.
bool obeys_escapes(int fd);

// Whether output may be colored: stdout is a terminal, and NO_COLOR (no-color.org) is not set.
bool shows_colour();

enum class Ink { plain, red, yellow };
std::string inked(const std::string& text, Ink ink);

}  // namespace nodestage
