// Word: how a value of an enumeration is written where people or other programs read it. A table of
// words serves both directions.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace nodestage {

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

}  // namespace nodestage
