#include "daemon/worker/decode/bit_string.hpp"

#include <algorithm>

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

}  // namespace nodestage
