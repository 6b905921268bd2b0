#include "daemon/worker/decode/bzip2_pieces.hpp"

#include <algorithm>
#include <array>

namespace nodestage {
namespace {

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

std::optional<Kind> kind_of(std::uint64_t number) {
  if (number == Bzip2Piece::k_block_number) return Kind::block;
  if (number == Bzip2Piece::k_end_number) return Kind::stream_end;
  return std::nullopt;
}

std::optional<Kind> kind_at(const std::vector<std::byte>& raw, std::uint64_t bit) {
  return kind_of(bytes_at(raw, bit / 8) >> (8 - bit % 8) & k_number_mask);
}

}  // namespace

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
  const auto begin = raw_.begin() + static_cast<std::ptrdiff_t>(head);
  const auto end = std::find_if(begin, raw_.end(), [](std::byte b) { return b != std::byte{0}; });
  const auto zeros = static_cast<std::size_t>(end - begin);
  if (zeros < k_padding) return false;
  dropped_ += zeros;
  raw_.erase(begin, end);
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

}  // namespace nodestage
