// Deflate (RFC 1951) and Deflate64: what their symbols stand for, and how far back they look.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "daemon/worker/decode/deflate_code.hpp"

namespace nodestage {

inline constexpr std::size_t k_deflate_symbols = 288;
inline constexpr std::size_t k_deflate_distances = 32;
inline constexpr unsigned k_end_of_block = 256;

// In which order a block's header has the lengths of the code of the code lengths.
inline constexpr std::uint8_t k_code_length_order[] = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                                       11, 4,  12, 3, 13, 2, 14, 1, 15};
// Of the code lengths: how many bits the repetition of the previous one has. Others repeat 0.
inline constexpr unsigned k_previous_extra = 2;

namespace deflate_symbols {

using Kind = CodedSymbol::Kind;

constexpr std::array<CodedSymbol, std::size(k_code_length_order)> code_lengths() {
  std::array<CodedSymbol, std::size(k_code_length_order)> symbols{};
  for (std::uint32_t i = 0; i < 16; ++i) symbols[i] = {Kind::literal, i};
  symbols[16] = {Kind::range, 3, k_previous_extra};
  symbols[17] = {Kind::range, 3, 3};
  symbols[18] = {Kind::range, 11, 7};
  return symbols;
}

// `last`: what symbol 285 stands for.
constexpr std::array<CodedSymbol, k_deflate_symbols> literals(CodedSymbol last) {
  std::array<CodedSymbol, k_deflate_symbols> symbols{};
  for (std::uint32_t i = 0; i < k_end_of_block; ++i) symbols[i] = {Kind::literal, i};
  symbols[k_end_of_block] = {Kind::end, 0};
  std::uint32_t base = 3;
  for (std::uint32_t i = 0; i < 28; ++i) {
    const unsigned extra = i < 8 ? 0 : i / 4 - 1;
    symbols[k_end_of_block + 1 + i] = {Kind::range, base, extra};
    base += std::uint32_t{1} << extra;
  }
  symbols[285] = last;
  return symbols;
}

constexpr std::array<CodedSymbol, k_deflate_distances> distances(std::size_t count) {
  std::array<CodedSymbol, k_deflate_distances> symbols{};
  std::uint32_t base = 1;
  for (std::uint32_t i = 0; i < count; ++i) {
    const unsigned extra = i < 4 ? 0 : i / 2 - 1;
    symbols[i] = {Kind::range, base, extra};
    base += std::uint32_t{1} << extra;
  }
  return symbols;
}

// The lengths of the fixed code.
constexpr std::array<std::uint8_t, k_deflate_symbols> fixed_literals() {
  std::array<std::uint8_t, k_deflate_symbols> bits{};
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = i < 144 || i >= 280 ? 8 : i < 256 ? 9 : 7;
  return bits;
}

constexpr std::array<std::uint8_t, k_deflate_distances> fixed_distances() {
  std::array<std::uint8_t, k_deflate_distances> bits{};
  for (std::uint8_t& each : bits) each = 5;
  return bits;
}

}  // namespace deflate_symbols

inline constexpr auto k_code_lengths = deflate_symbols::code_lengths();
inline constexpr auto k_fixed_literals = deflate_symbols::fixed_literals();
inline constexpr auto k_fixed_distances = deflate_symbols::fixed_distances();

struct Deflate {
  static constexpr std::size_t k_window = std::size_t{1} << 15;
  static constexpr auto k_literals = deflate_symbols::literals({CodedSymbol::Kind::range, 258});
  static constexpr auto k_distances = deflate_symbols::distances(30);
  static constexpr std::size_t k_most_literals = 286;
  static constexpr std::size_t k_most_distances = 30;
  // Refuses what no encoder writes: codes that are not complete, and no end of a block.
  static constexpr bool k_is_strict = true;
  static constexpr bool k_is_long = false;  // a length and its distance have at most 48 bits
};

// See deflate64_codec.hpp.
struct Deflate64 {
  static constexpr std::size_t k_window = std::size_t{1} << 16;
  static constexpr auto k_literals = deflate_symbols::literals({CodedSymbol::Kind::range, 3, 16});
  static constexpr auto k_distances = deflate_symbols::distances(32);
  static constexpr std::size_t k_most_literals = k_deflate_symbols;
  static constexpr std::size_t k_most_distances = k_deflate_distances;
  static constexpr bool k_is_strict = false;
  static constexpr bool k_is_long = true;
};

}  // namespace nodestage
