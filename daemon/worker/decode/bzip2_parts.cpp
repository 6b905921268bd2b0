#include "daemon/worker/decode/bzip2_parts.hpp"

#include <bzlib.h>

#include <algorithm>
#include <array>
#include <bit>

namespace nodestage {
namespace {

unsigned byte_at(Bytes from, std::uint64_t index) {
  return index < from.size() ? std::to_integer<unsigned>(from[index]) : 0;
}

// Eight bits starting at bit `first`, with zeros after the end.
unsigned octet_at(Bytes from, std::uint64_t first) {
  const unsigned shift = first % 8;
  return (byte_at(from, first / 8) << shift | byte_at(from, first / 8 + 1) >> (8 - shift)) & 0xffU;
}

using Kind = Bzip2Piece::Kind;

constexpr std::size_t k_step = std::size_t{256} * 1024;
constexpr std::uint64_t k_number_mask = (std::uint64_t{1} << Bzip2Piece::k_number_bits) - 1;
// No block has this many zero bytes in a row: it has at most 900,000 bits of them.
constexpr std::size_t k_padding = std::size_t{256} * 1024;

// By the third byte of a possible number: the bits of its first byte at which it may begin.
constexpr std::array<std::uint8_t, 256> make_candidates() {
  std::array<std::uint8_t, 256> candidates{};
  for (const std::uint64_t number : {Bzip2Piece::k_block_number, Bzip2Piece::k_end_number}) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      auto& entry = candidates[number >> (24 + bit) & 0xff];
      entry = static_cast<std::uint8_t>(entry | 1U << bit);
    }
  }
  return candidates;
}
constexpr auto k_candidates = make_candidates();

// Seven bytes, or as many as there are.
std::uint64_t bytes_at(const std::vector<std::byte>& raw, std::size_t at) {
  std::uint64_t value = 0;
  for (std::size_t i = at; i < at + 7; ++i)
    value = value << 8 | (i < raw.size() ? std::to_integer<std::uint64_t>(raw[i]) : 0);
  return value;
}

std::optional<Kind> kind_at(const std::vector<std::byte>& raw, std::uint64_t bit) {
  const std::uint64_t number = bytes_at(raw, bit / 8) >> (8 - bit % 8) & k_number_mask;
  if (number == Bzip2Piece::k_block_number) return Kind::block;
  if (number == Bzip2Piece::k_end_number) return Kind::stream_end;
  return std::nullopt;
}

}  // namespace

void BitString::append(Bytes from, std::uint64_t first, std::uint64_t bits) {
  if (size_ % 8 != 0) {
    for (; bits >= 8; bits -= 8, first += 8) append(octet_at(from, first), 8);
    if (bits > 0) append(octet_at(from, first) >> (8 - bits), static_cast<unsigned>(bits));
    return;
  }
  // Nearly all of the time is spent here, so the loop must be short.
  const std::uint64_t whole = bits / 8;
  const std::uint64_t inside = whole > 0 ? whole - 1 : 0;  // whose second byte surely exists
  const std::size_t begin = bytes_.size();
  const unsigned shift = first % 8;
  bytes_.resize(begin + whole);
  const std::byte* in = from.data() + first / 8;
  std::byte* out = bytes_.data() + begin;
  for (std::uint64_t i = 0; i < inside; ++i) out[i] = in[i] << shift | in[i + 1] >> (8 - shift);
  for (std::uint64_t i = inside; i < whole; ++i) out[i] = std::byte(octet_at(from, first + 8 * i));
  size_ += 8 * whole;
  const auto rest = static_cast<unsigned>(bits % 8);
  if (rest > 0) append(octet_at(from, first + 8 * whole) >> (8 - rest), rest);
}

void BitString::append(std::uint64_t value, unsigned bits) {
  for (unsigned left = bits; left > 0;) {
    const unsigned used = size_ % 8;
    if (used == 0) bytes_.push_back(std::byte{0});
    const unsigned part = std::min(left, 8 - used);
    const std::uint64_t some = value >> (left - part) & ((1U << part) - 1);
    bytes_.back() |= std::byte(some << (8 - used - part));
    left -= part;
    size_ += part;
  }
}

std::uint64_t BitString::number(std::uint64_t first, unsigned bits) const {
  std::uint64_t value = 0;
  for (unsigned i = 0; i < bits; ++i) {
    const std::uint64_t at = first + i;
    value = value << 1 | (byte_at(bytes_, at / 8) >> (7 - at % 8) & 1U);
  }
  return value;
}

std::optional<Bzip2Pieces::Found> Bzip2Pieces::find(std::uint64_t from) const {
  for (std::size_t at = from / 8; at + 6 <= raw_.size(); ++at) {
    const unsigned candidates = k_candidates[std::to_integer<std::size_t>(raw_[at + 2])];
    if (candidates == 0) continue;
    for (unsigned bit = 0; bit < 8; ++bit) {
      const std::uint64_t place = 8 * at + bit;
      if ((candidates >> bit & 1U) == 0 || place < from) continue;
      if (place + Bzip2Piece::k_number_bits > 8 * raw_.size()) continue;
      if (const auto kind = kind_at(raw_, place)) return Found{place, *kind};
    }
  }
  return std::nullopt;
}

Status Bzip2Pieces::read() {
  TRY_ASSIGN(const std::size_t held, input_.ensure(1));
  has_ended_ = held == 0;
  const Bytes some = input_.front().first(std::min(input_.front().size(), k_step));
  raw_.insert(raw_.end(), some.begin(), some.end());
  input_.skip(some.size());
  return {};
}

// There may be many zeros after the end of a stream.
bool Bzip2Pieces::drop_padding() {
  if (kind_ != Kind::stream_end) return false;
  const std::uint64_t head = (start_ + Bzip2Piece::k_head_bits + 7) / 8;
  if (raw_.size() < head + k_padding) return false;
  const std::size_t zeros = zeros_before_data(Bytes(raw_).subspan(head));
  if (zeros < k_padding) return false;
  dropped_ += zeros;
  const auto begin = raw_.begin() + static_cast<std::ptrdiff_t>(head);
  raw_.erase(begin, begin + static_cast<std::ptrdiff_t>(zeros));
  searched_ = 0;
  return true;
}

Bzip2Piece Bzip2Pieces::cut(std::uint64_t end) {
  Bzip2Piece piece;
  piece.kind = *kind_;
  piece.bits.append(raw_, start_, end - start_);
  piece.offset = raw_offset_ + start_ / 8;
  piece.first_bit = static_cast<unsigned>(start_ % 8);
  piece.position = raw_offset_ + dropped_ + (end + 7) / 8;
  raw_offset_ += dropped_ + end / 8;
  dropped_ = 0;
  raw_.erase(raw_.begin(), raw_.begin() + static_cast<std::ptrdiff_t>(end / 8));
  start_ = end % 8;
  searched_ = 0;
  return piece;
}

Result<std::optional<Bzip2Piece>> Bzip2Pieces::next() {
  while (!is_over_) {
    if (!kind_ && raw_.size() >= 10) kind_ = kind_at(raw_, start_).value_or(Kind::block);
    if (const auto found = find(std::max(start_ + Bzip2Piece::k_head_bits, searched_))) {
      Bzip2Piece piece = cut(found->bit);
      kind_ = found->kind;
      return std::optional(std::move(piece));
    }
    // A number may begin in the last bytes.
    searched_ = 8 * (raw_.size() - std::min<std::size_t>(raw_.size(), 7));
    if (drop_padding()) continue;
    if (has_ended_ || raw_.size() > k_most_bzip2_bytes) {
      is_over_ = true;
      if (!kind_) kind_ = Kind::block;  // too short for anything
      start_ = std::min<std::uint64_t>(start_, 8 * raw_.size());
      Bzip2Piece piece = cut(8 * raw_.size());
      piece.is_last = true;
      return std::optional(std::move(piece));
    }
    TRY(read());
  }
  return std::optional<Bzip2Piece>();
}

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
  const Bytes rest = behind.bytes().subspan(zeros_before_data(behind.bytes()));
  if (piece.is_last ? rest.empty() : behind.size() % 8 == 0 && is_stream_header(rest)) return;
  is_over_ = true;
  junk_ = Junk{piece.offset + (piece.first_bit + Bzip2Piece::k_head_bits + 7) / 8,
               {rest.begin(), rest.end()}};
}

}  // namespace nodestage
