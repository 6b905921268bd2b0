#include "common/text/utf16.hpp"

#include <algorithm>
#include <cstdint>

namespace nodestage {
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

}  // namespace nodestage
