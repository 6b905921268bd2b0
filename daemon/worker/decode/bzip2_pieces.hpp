// Bzip2Pieces: a bzip2 file, cut wherever a block or the end of a stream seems to begin.
//
// Both begin, at any bit, with a number of 48 bits ("1AY&SY", the digits of pi; "\x17rE8P\x90", of
// its square root) and a checksum of 32 bits. By chance or on purpose, data may contain such a
// number, too. A block is then in several pieces, which only its decoder can recognize.
#pragma once

#include <cstdint>
#include <optional>

#include "daemon/worker/decode/bit_string.hpp"
#include "daemon/worker/read/compressed_input.hpp"

namespace nodestage {

struct Bzip2Piece {
  enum class Kind { block, stream_end };
  Kind kind = Kind::block;
  BitString bits;              // from its number up to the next number
  std::uint64_t offset = 0;    // of its first bit, in bytes of the file
  unsigned first_bit = 0;      // in that byte
  std::uint64_t position = 0;  // in the file, after the piece
  bool is_last = false;        // the file ends with it, or it is too long to be valid

  static constexpr unsigned k_number_bits = 48;
  static constexpr unsigned k_checksum_bits = 32;
  static constexpr unsigned k_head_bits = k_number_bits + k_checksum_bits;
  static constexpr std::uint64_t k_block_number = 0x314159265359;
  static constexpr std::uint64_t k_end_number = 0x177245385090;

  [[nodiscard]] bool has_head() const { return bits.size() >= k_head_bits; }
  [[nodiscard]] std::uint32_t checksum() const {
    return static_cast<std::uint32_t>(bits.number(k_number_bits, k_checksum_bits));
  }
};

// More than any block takes: 900,000 symbols of at most 20 bits, and its tables.
inline constexpr std::uint64_t k_most_bzip2_bytes = 5 * 512 * 1024;

// One thread. Memory: a piece of k_most_bzip2_bytes and 256 KiB.
class Bzip2Pieces {
 public:
  // For a file that was recognized as bzip2. The input is borrowed.
  explicit Bzip2Pieces(CompressedInput& input) : input_(input) {}

  // Empty at the end. A fault is the input's.
  Result<std::optional<Bzip2Piece>> next();

 private:
  struct Found {
    std::uint64_t bit;
    Bzip2Piece::Kind kind;
  };
  [[nodiscard]] std::optional<Found> find(std::uint64_t from) const;
  Status read();
  bool drop_padding();
  Bzip2Piece cut(std::uint64_t end);

  CompressedInput& input_;
  std::vector<std::byte> raw_;    // of the file, from the byte with the piece's first bit on
  std::uint64_t raw_offset_ = 0;  // of raw_ in the file, as if nothing had been dropped
  std::uint64_t dropped_ = 0;     // from raw_
  std::uint64_t start_ = 32;      // of the piece, a bit of raw_: after "BZh9"
  std::uint64_t searched_ = 0;    // apart from the piece's own, no number begins before this bit
  std::optional<Bzip2Piece::Kind> kind_;
  bool has_ended_ = false;  // the input
  bool is_over_ = false;
};

}  // namespace nodestage
