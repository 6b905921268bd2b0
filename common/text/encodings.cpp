#include "common/text/encodings.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>

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

namespace {

constexpr std::string_view k_mark_of_utf8 = "\xEF\xBB\xBF";
constexpr std::string_view k_mark_of_little = "\xFF\xFE";
constexpr std::string_view k_mark_of_big = "\xFE\xFF";
constexpr std::uint32_t k_replacement = 0xFFFD;

enum class Order { little, big };

void append(std::string& text, std::uint32_t point) {
  const auto add = [&text](std::uint32_t byte) { text += static_cast<char>(byte); };
  const auto add_rest = [&](int shift) { add(0x80 | (point >> shift & 0x3F)); };
  if (point < 0x80) return add(point);
  if (point < 0x800) {
    add(0xC0 | point >> 6);
  } else if (point < 0x10000) {
    add(0xE0 | point >> 12);
    add_rest(6);
  } else {
    add(0xF0 | point >> 18);
    add_rest(12);
    add_rest(6);
  }
  add_rest(0);
}

bool is_high(std::uint32_t unit) { return unit >= 0xD800 && unit < 0xDC00; }
bool is_low(std::uint32_t unit) { return unit >= 0xDC00 && unit < 0xE000; }

std::uint32_t unit_at(std::string_view bytes, std::size_t at, Order order) {
  const auto byte = [&](std::size_t i) {
    return std::uint32_t{static_cast<unsigned char>(bytes[i])};
  };
  return order == Order::little ? byte(at) | byte(at + 1) << 8 : byte(at) << 8 | byte(at + 1);
}

std::string decoded(std::string_view bytes, Order order) {
  std::string text;
  for (std::size_t at = 0; at + 1 < bytes.size(); at += 2) {
    const std::uint32_t unit = unit_at(bytes, at, order);
    const std::uint32_t next = at + 3 < bytes.size() ? unit_at(bytes, at + 2, order) : 0;
    if (is_high(unit) && is_low(next)) {
      append(text, 0x10000 + ((unit - 0xD800) << 10) + (next - 0xDC00));
      at += 2;
    } else {
      append(text, is_high(unit) || is_low(unit) ? k_replacement : unit);
    }
  }
  return text;
}

}  // namespace

std::string utf8_of(std::string_view bytes) {
  if (bytes.starts_with(k_mark_of_utf8)) return std::string(bytes.substr(k_mark_of_utf8.size()));
  const std::string_view rest = bytes.substr(std::min<std::size_t>(2, bytes.size()));
  if (bytes.starts_with(k_mark_of_little)) return decoded(rest, Order::little);
  if (bytes.starts_with(k_mark_of_big)) return decoded(rest, Order::big);
  return std::string(bytes);
}

std::string latin1_to_utf8(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      text += c;
    } else {
      text += static_cast<char>(0xc0 | byte >> 6);
      text += static_cast<char>(0x80 | (byte & 0x3f));
    }
  }
  return text;
}

std::string utf8_to_latin1(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte >= 0x80 && i + 1 < text.size()) {
      ++i;
      bytes += static_cast<char>((byte & 0x03) << 6 | (static_cast<unsigned char>(text[i]) & 0x3f));
    } else {
      bytes += text[i];
    }
  }
  return bytes;
}

}  // namespace nodestage
