// Converts values of our own JSON documents (orders, journal entries, reports) to C++ values and
// back.
//
// nlohmann's get<T>() casts any number to T: 1e40 as an int is undefined behavior, 300 as a byte is
// 44. read_json_value() refuses a number that T cannot hold and a value of another type, and throws
// nothing.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/enum_range.hpp"
#include "common/text/latin1.hpp"

namespace nodestage {

// Strings can be any bytes: each byte becomes the code point of its value (latin1.hpp).
template <typename T>
nlohmann::json to_json_value(const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    return latin1_to_utf8(value);
  } else {
    return value;
  }
}

// Returns false, and leaves `value` unchanged, if `json` is not a T. The strings of a list are read
// as UTF-8, unconverted.
template <typename T>
bool read_json_value(const nlohmann::json& json, T& value);

template <typename T>
bool read_json_integer(const nlohmann::json& json, T& value) {
  const bool fits = json.is_number_unsigned()
                        ? std::in_range<T>(json.get<nlohmann::json::number_unsigned_t>())
                        : json.is_number_integer() &&
                              std::in_range<T>(json.get<nlohmann::json::number_integer_t>());
  if (fits) value = json.get<T>();
  return fits;
}

template <RangedEnum T>
bool read_json_enum(const nlohmann::json& json, T& value) {
  std::uint64_t number = 0;
  if (!read_json_integer(json, number)) return false;
  const auto known = to_enum<T>(number);
  if (known) value = *known;
  return known.has_value();
}

inline bool read_json_texts(const nlohmann::json& json, std::vector<std::string>& value) {
  std::vector<std::string> texts;
  if (!json.is_array()) return false;
  for (const auto& element : json) {
    const auto* text = element.get_ptr<const std::string*>();
    if (text == nullptr) return false;
    texts.push_back(*text);
  }
  value = std::move(texts);
  return true;
}

inline bool read_json_numbers(const nlohmann::json& json, std::vector<std::uint64_t>& value) {
  std::vector<std::uint64_t> numbers;
  if (!json.is_array()) return false;
  for (const auto& element : json) {
    if (!read_json_integer(element, numbers.emplace_back())) return false;
  }
  value = std::move(numbers);
  return true;
}

template <typename T>
bool read_json_value(const nlohmann::json& json, T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    const auto* text = json.get_ptr<const std::string*>();
    if (text != nullptr) value = utf8_to_latin1(*text);
    return text != nullptr;
  } else if constexpr (std::is_same_v<T, bool>) {
    if (json.is_boolean()) value = json.get<bool>();
    return json.is_boolean();
  } else if constexpr (std::is_same_v<T, double>) {
    if (json.is_number()) value = json.get<double>();
    return json.is_number();
  } else if constexpr (std::is_enum_v<T>) {
    return read_json_enum(json, value);
  } else if constexpr (std::is_integral_v<T>) {
    return read_json_integer(json, value);
  } else if constexpr (std::is_same_v<T, std::vector<std::uint64_t>>) {
    return read_json_numbers(json, value);
  } else {
    return read_json_texts(json, value);
  }
}

}  // namespace nodestage
