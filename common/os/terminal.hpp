// Finds out whether a descriptor's reader interprets escape codes and colors.
#pragma once

#include <string>
#include <string_view>

namespace nodestage {

// Returns whether `fd` is a terminal that can move its cursor, as TERM=dumb cannot.
bool obeys_escapes(int fd, std::string_view type);
// Does the same, with this process's TERM.
bool obeys_escapes(int fd);

// Returns whether to color: stdout is a terminal, and NO_COLOR (no-color.org) is not set.
bool shows_colour();

enum class Ink { plain, red, yellow };
std::string inked(const std::string& text, Ink ink);

}  // namespace nodestage
