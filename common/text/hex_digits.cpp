#include "common/text/hex_digits.hpp"

#include <algorithm>
#include <charconv>

namespace nodestage {

std::string percent_decoded(std::string_view text) {
  std::string path;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned byte = 0;
    const char* digits = text.data() + i + 1;
    if (text[i] == '%' && i + 2 < text.size() &&
        std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
      path += static_cast<char>(byte);
      i += 2;
    } else {
      path += text[i];
    }
  }
  return path;
}

std::optional<std::string> from_base64(std::string_view text) {
  constexpr std::string_view k_digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string bytes;
  unsigned value = 0;
  unsigned bits = 0;
  for (const char c : text) {
    const std::size_t digit = k_digits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    value = (value << 6 | static_cast<unsigned>(digit)) & 0xfff;
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes += static_cast<char>(value >> bits & 0xff);
  }
  return bytes;
}

std::optional<std::string> from_base64url(std::string_view text) {
  std::string plain(text);
  std::replace(plain.begin(), plain.end(), '-', '+');
  std::replace(plain.begin(), plain.end(), '_', '/');
  return from_base64(plain);
}

}  // namespace nodestage
