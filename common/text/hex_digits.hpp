// Writes bytes as hexadecimal digits, in lower case, and reads them and other codings of bytes.
#pragma once

#include <optional>
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

// Reads what hex_digits() has written; nothing if it is something else.
inline std::optional<std::string> bytes_of_hex(std::string_view digits) {
  if (digits.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2) {
    const std::size_t high = k_hex_digits.find(digits[i]);
    const std::size_t low = k_hex_digits.find(digits[i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) return std::nullopt;
    bytes += static_cast<char>(high << 4U | low);
  }
  return bytes;
}

// Makes "=" of "%3D", and so on; other text stays.
std::string percent_decoded(std::string_view text);

// Decodes Base64 (RFC 4648), with or without padding.

// Returns the bytes; nothing if the text has another character than the alphabet's.
std::optional<std::string> from_base64(std::string_view text);
// Does the same, which also takes the alphabet for URLs and file names ('-' and '_').
std::optional<std::string> from_base64url(std::string_view text);

}  // namespace nodestage
