#include "common/os/terminal.hpp"

#include <unistd.h>

#include <cstdlib>

namespace nodestage {
namespace {

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : value;
}

}  // namespace

bool obeys_escapes(int fd, std::string_view type) { return ::isatty(fd) == 1 && type != "dumb"; }

bool obeys_escapes(int fd) { return obeys_escapes(fd, variable("TERM")); }

bool shows_colour() { return obeys_escapes(STDOUT_FILENO) && variable("NO_COLOR").empty(); }

std::string inked(const std::string& text, Ink ink) {
  switch (ink) {
    case Ink::red:
      return "\x1b[31m" + text + "\x1b[0m";
    case Ink::yellow:
      return "\x1b[33m" + text + "\x1b[0m";
    case Ink::plain:
      break;
  }
  return text;
}

}  // namespace nodestage
