// Converts values of our own JSON documents (orders, journal entries) to C++ values and back.
//
// nlohmann's get<T>() casts any number to T: 1e40 as an int is undefined behavior, 300 as a byte is
// 44. Here a number that T cannot hold is an error, as a value of another type is.
#pragma once

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

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

// Throws a std::exception if `json` is not a T.
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
