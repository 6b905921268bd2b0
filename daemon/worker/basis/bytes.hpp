// Bytes that are only read, and the numbers in them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace nodestage {

using Bytes = std::span<const std::byte>;

// Takes as many bytes from `at` on as the type has, the lowest one first; they must exist.
template <typename Number = std::uint32_t>
Number little_endian(Bytes bytes, std::size_t at = 0) {
  std::uint64_t number = 0;
  for (std::size_t i = sizeof(Number); i-- > 0;)
    number = number << 8 | std::to_integer<std::uint64_t>(bytes[at + i]);
  return static_cast<Number>(number);
}

template <typename Number>
void put_little_endian(std::string& text, Number number) {
  auto rest = static_cast<std::uint64_t>(number);
  for (std::size_t i = 0; i < sizeof number; ++i, rest >>= 8)
    text += static_cast<char>(static_cast<unsigned char>(rest & 0xff));
}

}  // namespace nodestage
