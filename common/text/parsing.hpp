// Parses parts of a text: numbers, and words between blanks.
#pragma once

#include <charconv>
#include <concepts>
#include <optional>
#include <string_view>

namespace nodestage {

// Removes the decimal number at the start of `text` and returns it; nothing if `text` does not
// start with one that a T can hold. The only sign allowed is '-', for a signed T.
template <std::integral T>
std::optional<T> take_number(std::string_view& text) {
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

// Does the same for a text that must contain nothing else.
template <std::integral T>
std::optional<T> parse_number(std::string_view text) {
  const auto number = take_number<T>(text);
  return text.empty() ? number : std::nullopt;
}

// `text` without the blanks at both ends.
inline std::string_view trimmed(std::string_view text, std::string_view blanks = " \t\r") {
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

}  // namespace nodestage
