// Bzip2Parts: a bzip2 file as parts of one block each, decoded by all threads: libbz2 gets each
// block as a stream of its own. The checksum of each stream and what follows the stream are
// verified in order.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "daemon/worker/decode/codec.hpp"
#include "daemon/worker/decode/ordered_parts.hpp"
#include "daemon/worker/read/buffer.hpp"

namespace nodestage {

// BitString: bits that do not begin or end at byte boundaries, as in bzip2's streams. The first bit
// is the highest one of the first byte.
class BitString {
 public:
  // Appends `bits` bits of `from`, starting at bit `first`.
  void append(Bytes from, std::uint64_t first, std::uint64_t bits);
  // Appends the lowest `bits` bits of `value`, at most 64.
  void append(std::uint64_t value, unsigned bits);
  void append(const BitString& other) { append(other.bytes(), 0, other.size()); }

  // Returns at most 64 bits, all of which must exist.
  [[nodiscard]] std::uint64_t number(std::uint64_t first, unsigned bits) const;

  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] Bytes bytes() const { return bytes_; }  // the last one is padded with zeros
  void clear() {
    bytes_ = {};
    size_ = 0;
  }

 private:
  std::vector<std::byte> bytes_;
  std::uint64_t size_ = 0;
};

// Bzip2Pieces: a bzip2 file, cut wherever a block or the end of a stream seems to begin.
//
// Both begin, at any bit, with a number of 48 bits ("1AY&SY", the digits of pi; "\x17rE8P\x90", of
// its square root) and a checksum of 32 bits. By chance or on purpose, data may contain such a
// number, too. A block is then in several pieces, which only its decoder can recognize.
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

// Memory: 3.7 MiB a thread, and a compressed block (1 MiB; in a hostile file 2.5 MiB) a part.
class Bzip2Parts final : public PartMaker {
 public:
  // The store must have 4 blocks more than its consumer and all waiting parts hold.
  explicit Bzip2Parts(std::unique_ptr<DecodeStore> store)
      : store_(std::move(store)), pieces_(store_->input) {}

  std::unique_ptr<Part> make() override;
  void settle(Part& part, OrderedParts& behind) override;
  void stop() override { store_->stop(); }
  [[nodiscard]] std::optional<Junk> junk() const override { return junk_; }

 private:
  void end_stream(Part& part, const Bzip2Piece& piece);

  const std::unique_ptr<DecodeStore> store_;
  Bzip2Pieces pieces_;

  // The consumer's:
  std::uint32_t checksum_ = 0;  // of the stream's blocks so far
  bool is_over_ = false;        // what follows is not bzip2
  std::optional<Junk> junk_;
};

}  // namespace nodestage
