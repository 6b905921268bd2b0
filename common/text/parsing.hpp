// Parses parts of a text: numbers, times, and words, and suggests a word for one that is not known.
#pragma once

#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

// Removes the part of `text` before the first of `ends` (a character, or a text of several), and
// that character, and returns the part: all of a text that has none of them.
template <typename Ends>
std::string_view take_part(std::string_view& text, Ends ends) {
  const std::string_view part = text.substr(0, text.find_first_of(ends));
  text.remove_prefix(part.size() + (part.size() < text.size() ? 1 : 0));
  return part;
}

// Returns the parts of `text` between its separators: at least one, which may be empty.
std::vector<std::string_view> parts_of(std::string_view text, char separator);

// Returns what is between blanks and newlines.
std::vector<std::string> words_in(std::string_view text);

// Returns the seconds of "900", "900s", "15m", "1h", or "2d"; nothing for any other text, and for
// what 64 bits cannot hold.
std::optional<std::uint64_t> parse_duration(std::string_view text);

// Word: how a value of an enumeration is written where people or other programs read it. A table of
// words serves both directions.
struct Word {
  template <typename Enum>
  constexpr Word(const char* name, Enum meaning)
      : text(name), value(static_cast<unsigned>(meaning)) {}

  const char* text;
  unsigned value;
};

// Returns the word for a value; "" if it has none.
template <typename Value>
constexpr const char* word_of(std::span<const Word> words, Value value) {
  for (const Word& word : words)
    if (word.value == static_cast<unsigned>(value)) return word.text;
  return "";
}

// Returns the value that a word stands for, if it is one of these.
constexpr std::optional<unsigned> value_of(std::span<const Word> words, std::string_view text) {
  for (const Word& word : words)
    if (text == word.text) return word.value;
  return std::nullopt;
}

inline std::vector<std::string_view> texts_of(std::span<const Word> words) {
  std::vector<std::string_view> texts;
  for (const Word& word : words) texts.emplace_back(word.text);
  return texts;
}

// Suggests a word for one that is not known.

// The index of the word of `known` that has the nearest spelling to `word`, or starts with it;
// nothing if none is near. Both are in lower case.
std::optional<std::size_t> nearest_word(std::string_view word,
                                        const std::vector<std::string_view>& known);

// Returns " (did you mean 'strip'?)" for "stirp": names the word of `known` that has the nearest
// spelling, ignoring case, or starts with `word`. "" if none is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& known);

}  // namespace nodestage
