// Values of our own JSON documents (orders, journal entries) as C++ values, and back.
//
// nlohmann's get<T>() casts any number to T: 1e40 as an int is undefined behaviour, 300 as a byte
// is 44. Here a number that T cannot hold is an error, as a text in its place is.
#pragma once

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "common/text/latin1.hpp"

namespace nodestage {

// Texts are any bytes: each becomes the code point of its number.
template <typename T>
nlohmann::json to_json_value(const T& value) {
  if constexpr (std::is_same_v<T, std::string>) {
    return latin1_to_utf8(value);
  } else {
    return value;
  }
}

// Throws what is derived from std::exception where `json` is no T.
template <typename T>
T from_json_value(const nlohmann::json& json) {
  if constexpr (std::is_same_v<T, std::string>) {
    return utf8_to_latin1(json.get_ref<const std::string&>());
  } else if constexpr (std::is_enum_v<T>) {
    return static_cast<T>(from_json_value<std::underlying_type_t<T>>(json));
  } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    const bool fits = json.is_number_unsigned()
                          ? std::in_range<T>(json.get<nlohmann::json::number_unsigned_t>())
                          : json.is_number_integer() &&
                                std::in_range<T>(json.get<nlohmann::json::number_integer_t>());
    if (!fits) throw std::out_of_range("a number that does not fit: " + json.dump());
    return json.get<T>();
  } else {
    return json.get<T>();
  }
}

}  // namespace nodestage
