// PrefixCode: one Huffman code of deflate data, as a table that is looked up by the next bits.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "daemon/worker/basis/fault.hpp"

namespace nodestage {

// DeflateBits: the bits of input that comes in pieces; the first of a byte is its lowest.
struct DeflateBits {
  Bytes in;                // the rest of the piece
  std::uint64_t held = 0;  // taken from it and not used yet
  unsigned count = 0;      // of them

  // False: there are not so many.
  bool need(unsigned wanted) {
    for (; count < wanted; count += 8) {
      if (in.empty()) return false;
      held |= std::to_integer<std::uint64_t>(in.front()) << count;
      in = in.subspan(1);
    }
    return true;
  }

  std::uint32_t take(unsigned wanted) {
    const auto value = static_cast<std::uint32_t>(held & ((std::uint64_t{1} << wanted) - 1));
    held >>= wanted;
    count -= wanted;
    return value;
  }

  // Whole bytes, of which at most `taken` are from this piece.
  void give_back(std::size_t taken) {
    const std::size_t bytes = std::min<std::size_t>(count / 8, taken);
    in = {in.data() - bytes, in.size() + bytes};
    count -= static_cast<unsigned>(8 * bytes);
    held &= (std::uint64_t{1} << count) - 1;
  }
};

// What a code stands for, with the code's own length in bits.
class CodedSymbol {
 public:
  enum class Kind : std::uint32_t {
    none = 0,           // no code begins like this
    literal = 1U << 6,  // or any number that stands for itself
    end = 1U << 7,      // of the block
    range = 1U << 14,   // a length or a distance: the value, plus that many extra bits
    longer = 1U << 13   // the value is where the table of the longer codes begins
  };

  constexpr CodedSymbol() = default;
  constexpr CodedSymbol(Kind kind, std::uint32_t value, unsigned extra = 0)
      : data_(static_cast<std::uint32_t>(kind) | value << 16 | extra << 8) {}

  [[nodiscard]] constexpr CodedSymbol with_bits(unsigned bits) const {
    CodedSymbol symbol = *this;
    symbol.data_ |= bits;
    return symbol;
  }
  [[nodiscard]] constexpr bool is(Kind kind) const {
    return (data_ & static_cast<std::uint32_t>(kind)) != 0;
  }
  // The lowest six bits, which processors take from a register when they shift.
  [[nodiscard]] constexpr unsigned bits() const { return data_ & 0x3fU; }
  [[nodiscard]] constexpr unsigned extra() const { return data_ >> 8 & 0x1fU; }
  [[nodiscard]] constexpr std::uint32_t value() const { return data_ >> 16; }

 private:
  std::uint32_t data_ = 0;
};

inline constexpr unsigned k_longest_code = 15;
enum class CodeFit { complete, incomplete, too_many };

// Codes of up to FirstBits bits are found by one look.
template <unsigned FirstBits>
class PrefixCode {
 public:
  // Sets the code in which the symbol with number i has `bits_of_symbol[i]` bits (0: it has no
  // code) and stands for `meanings[i]`. Not to be used if there are too many.
  CodeFit set(std::span<const std::uint8_t> bits_of_symbol, std::span<const CodedSymbol> meanings);

  // A view that stays valid until the next set().
  class Table {
   public:
    explicit Table(const CodedSymbol* symbols) : symbols_(symbols) {}
    // The next bit is the lowest one.
    [[nodiscard]] CodedSymbol at(std::uint64_t bits) const {
      const CodedSymbol symbol = symbols_[bits % k_first];
      if (!symbol.is(CodedSymbol::Kind::longer)) return symbol;
      return symbols_[symbol.value() + (bits >> FirstBits) % k_longer];
    }

   private:
    const CodedSymbol* symbols_;
  };
  [[nodiscard]] Table table() const { return Table(symbols_.data()); }

 private:
  static constexpr std::size_t k_first = std::size_t{1} << FirstBits;
  static constexpr std::size_t k_longer = std::size_t{1} << (k_longest_code - FirstBits);
  void fill(std::uint32_t code, CodedSymbol symbol);

  std::vector<CodedSymbol> symbols_ = std::vector<CodedSymbol>(k_first);
};

using LengthCode = PrefixCode<11>;
using DistanceCode = PrefixCode<9>;
extern template class PrefixCode<11>;
extern template class PrefixCode<9>;

// DeflateCursor: where a DeflateBlocks stands in input and output while there is enough of both.
struct DeflateCursor {
  const std::byte* in;
  std::uint8_t* out;
  std::uint64_t bits;
  unsigned count;

  // At least 56 bits; those above `count` are the input's as well.
  void refill() {
    std::uint64_t next = 0;
    std::memcpy(&next, in, sizeof next);
    if constexpr (std::endian::native == std::endian::big) next = __builtin_bswap64(next);
    bits |= next << count;
    in += (63 - count) >> 3;
    count |= 56;
  }
  void use(unsigned used) {
    bits >>= used;
    count -= used;
  }
  void put(CodedSymbol symbol) {
    *out++ = static_cast<std::uint8_t>(symbol.value());
    use(symbol.bits());
  }
  std::uint32_t range(CodedSymbol symbol) {
    use(symbol.bits());
    const std::uint64_t mask = (std::uint64_t{1} << symbol.extra()) - 1;
    const std::uint32_t value = symbol.value() + static_cast<std::uint32_t>(bits & mask);
    use(symbol.extra());
    return value;
  }
  // In steps of several bytes where none of them is one that was just copied.
  void copy(std::uint32_t length, std::uint32_t distance) {
    constexpr std::uint32_t k_copy_step = 16;
    const std::uint8_t* from = out - distance;
    std::uint8_t* const end = out + length;
    if (distance >= k_copy_step) {
      for (std::uint8_t* to = out; to < end; to += k_copy_step, from += k_copy_step)
        std::memcpy(to, from, k_copy_step);
    } else if (distance == 1) {
      std::fill(out, end, *from);
    } else {
      for (std::uint8_t* to = out; to < end;) *to++ = *from++;
    }
    out = end;
  }
};

// Deflate (RFC 1951) and Deflate64: what their symbols stand for, and how far back they look.

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

// See make_deflate64_codec().
struct Deflate64 {
  static constexpr std::size_t k_window = std::size_t{1} << 16;
  static constexpr auto k_literals = deflate_symbols::literals({CodedSymbol::Kind::range, 3, 16});
  static constexpr auto k_distances = deflate_symbols::distances(32);
  static constexpr std::size_t k_most_literals = k_deflate_symbols;
  static constexpr std::size_t k_most_distances = k_deflate_distances;
  static constexpr bool k_is_strict = false;
  static constexpr bool k_is_long = true;
};

// DeflateMarks: which of the bytes that are decoded from the middle of a stream repeat some that
// lie before it, and which ones. They are few in data that hardly compress.
// Positions count from where the unknown window begins, whose bytes count as decoded.
class DeflateMarks {
 public:
  // `length` bytes from `at` on are those of the window from `from` on, or all the one at `from`.
  struct Run {
    std::uint32_t at;
    std::uint16_t from;
    std::uint16_t length;
    bool is_one = false;
    [[nodiscard]] std::uint32_t end() const { return at + length; }
  };
  static constexpr bool k_is_on = true;

  // At the end of a window of so many unknown bytes. There is room for `most` runs.
  void begin(std::size_t window, std::size_t most);

  // What was decoded at `at` repeats what lies `distance` before.
  void repeat(std::size_t at, std::uint32_t distance, std::uint32_t length) {
    if (at - distance < end_) follow(static_cast<std::uint32_t>(at), distance, length);
  }

  // There were more runs than there is room for: the others are missing.
  [[nodiscard]] bool is_full() const { return runs_.size() > most_; }
  // In order. The first one is the window itself.
  [[nodiscard]] std::span<const Run> runs() const { return runs_; }

 private:
  void follow(std::uint32_t at, std::uint32_t distance, std::uint32_t length);
  void copy(std::uint32_t source, std::uint32_t at, std::uint32_t length);
  void fill(std::uint32_t source, std::uint32_t at, std::uint32_t length);
  [[nodiscard]] std::size_t find(std::uint32_t source) const;
  void add(const Run& run);

  std::vector<Run> runs_;
  std::size_t most_ = 0;
  std::size_t end_ = 0;  // of the last run
};

// Nothing precedes the data.
struct NoMarks {
  static constexpr bool k_is_on = false;
  static void repeat(std::size_t, std::uint32_t, std::uint32_t) {}
};

}  // namespace nodestage
