#include "daemon/worker/decode/bzip2_parts.hpp"

#include <bzlib.h>

#include <algorithm>
#include <bit>

namespace nodestage {
namespace {

constexpr const char* k_cause = "bzip2 data or checksum";
constexpr unsigned k_most_pieces = 4;  // of one block; even two are a rare chance

// Decodes one block with libbz2.
class BlockStream {
 public:
  // `is_last`: the file ends after these bits, so they may end anywhere.
  BlockStream(const Bzip2Piece& piece, bool is_last) {
    // The greatest block size, with which libbz2 accepts all of them.
    for (const char c : {'B', 'Z', 'h', '9'}) input_.append(static_cast<unsigned char>(c), 8);
    input_.append(piece.bits);
    if (!is_last) {
      input_.append(Bzip2Piece::k_end_number, Bzip2Piece::k_number_bits);
      input_.append(piece.checksum(), Bzip2Piece::k_checksum_bits);
    }
    has_memory_ = BZ2_bzDecompressInit(&stream_, 0, 0) == BZ_OK;
    stream_.next_in = reinterpret_cast<char*>(const_cast<std::byte*>(input_.bytes().data()));
    stream_.avail_in = static_cast<unsigned>(input_.bytes().size());
  }
  BlockStream(const BlockStream&) = delete;
  BlockStream& operator=(const BlockStream&) = delete;
  ~BlockStream() { BZ2_bzDecompressEnd(&stream_); }

  enum class Outcome { whole, no_room, no_more_input, wrong, no_memory };

  Outcome decode(Part::Block& block) {
    if (!has_memory_) return Outcome::no_memory;
    const auto room = block.room().subspan(block.size);
    stream_.next_out = reinterpret_cast<char*>(room.data());
    stream_.avail_out = static_cast<unsigned>(room.size());
    const int status = BZ2_bzDecompress(&stream_);
    block.size += room.size() - stream_.avail_out;
    if (status == BZ_STREAM_END) return Outcome::whole;
    if (status == BZ_MEM_ERROR) return Outcome::no_memory;
    if (status != BZ_OK) return Outcome::wrong;
    return stream_.avail_out == 0 ? Outcome::no_room : Outcome::no_more_input;
  }

  // How far it got in the piece.
  [[nodiscard]] std::uint64_t consumed() const { return std::max(stream_.total_in_lo32, 4U) - 4; }

 private:
  BitString input_;
  bz_stream stream_{};
  bool has_memory_ = false;
};

class Bzip2Part final : public Part {
 public:
  using Outcome = BlockStream::Outcome;

  Bzip2Part(Bzip2Piece piece, DecodeStore& store) : piece_(std::move(piece)), store_(store) {
    position = piece_.position;
  }

  void work() override {
    if (piece_.kind == Bzip2Piece::Kind::block) begin();
  }

  // Joins two pieces that are one block in which a number looks like the start of another piece.
  bool join(const Bzip2Part& behind) {
    if (!behind.fault) fault = behind.fault;
    piece_.bits.append(behind.piece_.bits);
    piece_.is_last = behind.piece_.is_last;
    piece_.position = position = behind.piece_.position;
    if (!fault || piece_.bits.size() > 8 * k_most_bzip2_bytes) return false;
    blocks.front().size = 0;
    begin();
    return is_good();
  }

  void go_on() override {
    if (outcome_ != Outcome::no_room || !store_.add_block(*this)) return;
    decode();
    if (!is_good()) fault = wrong();
  }

  [[nodiscard]] bool is_good() const {
    return outcome_ == Outcome::whole || outcome_ == Outcome::no_room;
  }
  [[nodiscard]] Status wrong() const {
    const std::uint64_t at = piece_.offset + (stream_ != nullptr ? stream_->consumed() : 0);
    if (outcome_ == Outcome::no_memory) return store_.faults.of_codec(at, {ENOMEM, "no memory"});
    if (outcome_ == Outcome::no_more_input && piece_.is_last)
      return store_.faults.cut_off(piece_.position);
    return store_.faults.damaged_at(at, k_cause);
  }
  [[nodiscard]] Bzip2Piece& piece() { return piece_; }

 private:
  void begin() {
    if (piece_.bits.size() > 8 * k_most_bzip2_bytes || !piece_.has_head()) {
      outcome_ = piece_.has_head() ? Outcome::wrong : Outcome::no_more_input;
      return;
    }
    stream_ = std::make_unique<BlockStream>(piece_, piece_.is_last);
    decode();
  }

  void decode() {
    outcome_ = stream_->decode(blocks.back());
    if (outcome_ == Outcome::whole) stream_.reset();
  }

  Bzip2Piece piece_;
  DecodeStore& store_;
  std::unique_ptr<BlockStream> stream_;
  Outcome outcome_ = Outcome::whole;
};

// What must separate the end of one stream from the next block.
bool is_stream_header(Bytes bytes) {
  const auto is = [&bytes](std::size_t i, char c) {
    return std::to_integer<unsigned char>(bytes[i]) == static_cast<unsigned char>(c);
  };
  return bytes.size() == 4 && is(0, 'B') && is(1, 'Z') && is(2, 'h') &&
         bytes[3] >= std::byte{'1'} && bytes[3] <= std::byte{'9'};
}

}  // namespace

std::unique_ptr<Part> Bzip2Parts::make() {
  auto piece = pieces_.next();
  if (!piece) {
    auto part = std::make_unique<Bzip2Part>(Bzip2Piece(), *store_);
    part->fault = piece.error();
    return part;
  }
  if (!*piece) return nullptr;
  const bool is_block = (*piece)->kind == Bzip2Piece::Kind::block;
  auto part = std::make_unique<Bzip2Part>(std::move(**piece), *store_);
  if (is_block) store_->add_block(*part);
  return part;
}

void Bzip2Parts::settle(Part& made, OrderedParts& behind) {
  if (is_over_) {
    made.blocks.clear();
    return;
  }
  if (!made.fault) return;
  auto& part = static_cast<Bzip2Part&>(made);
  Bzip2Piece& piece = part.piece();
  if (piece.kind == Bzip2Piece::Kind::stream_end) return end_stream(part, piece);
  if (!part.is_good()) {
    const Status wrong = part.wrong();
    for (unsigned pieces = 1; !part.is_good() && part.fault; ++pieces) {
      const auto next = pieces < k_most_pieces ? behind.next() : nullptr;
      if (next == nullptr || !part.join(static_cast<const Bzip2Part&>(*next))) {
        if (next == nullptr && part.fault) part.fault = wrong;
      }
    }
  }
  checksum_ = std::rotl(checksum_, 1) ^ (piece.has_head() ? piece.checksum() : 0);
  piece.bits.clear();
}

void Bzip2Parts::end_stream(Part& part, const Bzip2Piece& piece) {
  if (!piece.has_head()) {
    part.fault = store_->faults.cut_off(piece.position);
    return;
  }
  if (piece.checksum() != checksum_) {
    part.fault = store_->faults.damaged_at(piece.offset, "bzip2 checksum");
    return;
  }
  checksum_ = 0;
  // The stream is padded to a whole byte.
  const std::uint64_t end =
      (piece.first_bit + Bzip2Piece::k_head_bits + 7) / 8 * 8 - piece.first_bit;
  BitString behind;
  if (piece.bits.size() > end) behind.append(piece.bits.bytes(), end, piece.bits.size() - end);
  Bytes rest = behind.bytes();
  while (!rest.empty() && rest.front() == std::byte{0}) rest = rest.subspan(1);
  if (piece.is_last ? rest.empty() : behind.size() % 8 == 0 && is_stream_header(rest)) return;
  is_over_ = true;
  junk_at_ = piece.offset + (piece.first_bit + Bzip2Piece::k_head_bits + 7) / 8;
}

}  // namespace nodestage
