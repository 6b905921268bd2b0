// Texts taken apart: numbers, and the blanks around words.
#pragma once

#include <charconv>
#include <concepts>
#include <optional>
#include <string_view>

namespace nodestage {

// The decimal number that `text` begins with, which is taken off; nothing where none begins there,
// or where it is too large for a T. No sign but '-' for a signed T.
template <std::integral T>
std::optional<T> take_number(std::string_view& text) {
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

// The same when nothing else is there.
template <std::integral T>
std::optional<T> parse_number(std::string_view text) {
  const auto number = take_number<T>(text);
  return text.empty() ? number : std::nullopt;
}

// Without the blanks at both ends.
inline std::string_view trimmed(std::string_view text, std::string_view blanks = " \t\r") {
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

}  // namespace nodestage
