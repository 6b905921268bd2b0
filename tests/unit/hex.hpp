// Bytes as two hexadecimal digits each, for golden tests.
#pragma once

#include <string>

inline std::string hex(const std::string& bytes) {
  static constexpr char k_digits[] = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    text += k_digits[static_cast<unsigned char>(c) >> 4];
    text += k_digits[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

// The same for an array of bytes.
template <typename Array>
std::string hex_of(const Array& bytes) {
  return hex(std::string(bytes.begin(), bytes.end()));
}

// Such digits without the blanks that part their fields.
inline std::string digits(std::string text) {
  std::erase(text, ' ');
  return text;
}
