// Writes bytes as hexadecimal digits, in lower case.
#pragma once

#include <string>
#include <string_view>

namespace nodestage {

inline constexpr std::string_view k_hex_digits = "0123456789abcdef";

// `bytes` is a range of char or unsigned char.
template <typename Bytes>
std::string hex_digits(const Bytes& bytes) {
  std::string text;
  for (const auto byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    text += k_hex_digits[value >> 4U];
    text += k_hex_digits[value & 15U];
  }
  return text;
}

}  // namespace nodestage
