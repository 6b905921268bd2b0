// Bytes as text, and text as bytes: hexadecimal digits, Base64, UTF-16, Latin-1, and FNV-1a.
#pragma once

#include <cstdint>
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

// FNV-1a, 64 bits: http://www.isthe.com/chongo/tech/comp/fnv/. Not for what an attacker must not
// forge.

// Continues with `hash`, that of the bytes before these.
constexpr std::uint64_t fnv1a(std::string_view bytes, std::uint64_t hash = 14695981039346656037U) {
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  return hash;
}

// Decodes texts that Windows has written.

// Returns the text as UTF-8, without a byte order mark: decoded if it starts with that of UTF-16;
// as it is otherwise. What is not valid becomes U+FFFD.
std::string utf8_of(std::string_view bytes);

// User names, job names and paths can be any bytes, but JSON needs UTF-8: reads each byte as
// Latin-1, so that the round trip gives the same bytes.
std::string latin1_to_utf8(std::string_view bytes);
// `text` must be a result of latin1_to_utf8().
std::string utf8_to_latin1(std::string_view text);

}  // namespace nodestage
