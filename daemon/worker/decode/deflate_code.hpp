// PrefixCode: one Huffman code of deflate data, as a table that is looked up by the next bits.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace nodestage {

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

}  // namespace nodestage
