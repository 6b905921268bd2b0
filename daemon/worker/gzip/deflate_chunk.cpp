#include "daemon/worker/gzip/deflate_chunk.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace nodestage {
namespace {

constexpr unsigned k_most_zeros = 7;
constexpr std::size_t k_code_lengths_count = std::size(k_code_length_order);

// Bits in the order of deflate data. Behind the end there are zeros.
class BitView {
 public:
  explicit BitView(Bytes data) : data_(data) {}

  // At least 57 bits; what is above them is not defined.
  [[nodiscard]] std::uint64_t at(std::uint64_t bit) const {
    std::uint64_t value = 0;
    const std::size_t byte = bit / 8;
    if (byte + sizeof value <= data_.size()) {
      std::memcpy(&value, &data_[byte], sizeof value);
      if constexpr (std::endian::native == std::endian::big) value = __builtin_bswap64(value);
    } else {
      for (std::size_t i = data_.size(); i-- > byte;)
        value = value << 8 | std::to_integer<std::uint64_t>(data_[i]);
    }
    return value >> bit % 8;
  }
  [[nodiscard]] std::uint64_t size() const { return 8 * std::uint64_t{data_.size()}; }

 private:
  Bytes data_;
};

// How much of a code of the longest length `longest` the codes take: all of it is 1 << longest.
constexpr std::uint32_t share(unsigned bits, unsigned longest) {
  return bits == 0 ? 0 : std::uint32_t{1} << (longest - bits);
}

// Of four lengths of three bits each: the sum of their shares, if that is not more than all. (Seven
// bits are the longest code.)
constexpr unsigned k_all_lengths = 1U << 7;
constexpr std::array<std::uint8_t, 1U << 12> four_shares() {
  std::array<std::uint8_t, 1U << 12> sums{};
  for (unsigned four = 0; four < sums.size(); ++four) {
    std::uint32_t sum = 0;
    for (unsigned i = 0; i < 4; ++i) sum += share(four >> 3 * i & 7, 7);
    sums[four] = static_cast<std::uint8_t>(std::min(sum, k_all_lengths + 1));
  }
  return sums;
}
constexpr auto k_four_shares = four_shares();

// Which of the next k_heads bits may begin a block that is not the last one.
constexpr unsigned k_heads = 40;
constexpr std::uint64_t k_all_heads = (std::uint64_t{1} << k_heads) - 1;
// With codes of its own: 0, 0, 1, then five bits each for the numbers of literals and of distances,
// which are less than 30.
constexpr std::uint64_t dynamic_heads(std::uint64_t bits) {
  const std::uint64_t pairs = bits & bits >> 1;
  const std::uint64_t fours = pairs & pairs >> 2;
  return ~bits & ~(bits >> 1) & bits >> 2 & ~(fours >> 4) & ~(fours >> 9) & k_all_heads;
}
// Stored: three zeros at the end of a byte. `bit`: that of the first one.
constexpr std::uint64_t stored_heads(std::uint64_t bits, std::uint64_t bit) {
  constexpr std::uint64_t k_each_byte = 0x0101010101010101U;
  return ~(bits | bits >> 1 | bits >> 2) & k_each_byte << (13 - bit % 8) % 8 & k_all_heads;
}

// A block's header at a bit that begins a dynamic head: whether all of its codes are complete, and
// nothing else is wrong.
class DynamicHeader {
 public:
  // `budget`: how many may be looked at closely.
  DynamicHeader(const BitView& view, std::uint64_t bit, std::uint64_t& budget)
      : view_(view), bit_(bit), budget_(budget) {}

  bool is_right() {
    const std::uint64_t head = view_.at(bit_);
    const std::size_t count = 4 + (head >> 13 & 15);
    bit_ += 17;
    // 19 × 3 bits, of which those that are not there count as 0.
    const std::uint64_t lengths = view_.at(bit_) & ((std::uint64_t{1} << 3 * count) - 1);
    std::uint32_t used = 0;
    for (unsigned i = 0; i < 60; i += 12) used += k_four_shares[lengths >> i & 0xfff];
    if (used != k_all_lengths || budget_ == 0) return false;
    --budget_;
    literals_ = 257 + (head >> 3 & 31);
    distances_ = 1 + (head >> 8 & 31);
    bit_ += 3 * count;
    return are_code_lengths_right(lengths, count) && bit_ <= view_.size();
  }

 private:
  bool are_code_lengths_right(std::uint64_t packed, std::size_t count) {
    std::array<std::uint8_t, k_code_lengths_count> bits{};
    for (std::size_t i = 0; i < count; ++i)
      bits[k_code_length_order[i]] = static_cast<std::uint8_t>(packed >> 3 * i & 7);
    thread_local DistanceCode code;
    code.set(bits, k_code_lengths);
    const std::size_t all = literals_ + distances_;
    std::array<std::uint8_t, k_deflate_symbols + k_deflate_distances> lengths{};
    for (std::size_t at = 0; at < all;) {
      if (bit_ > view_.size()) return false;
      const std::uint64_t next = view_.at(bit_);
      const CodedSymbol symbol = code.table().at(next);
      const std::uint64_t extra = next >> symbol.bits() & ((1U << symbol.extra()) - 1);
      bit_ += symbol.bits() + symbol.extra();
      if (symbol.is(CodedSymbol::Kind::literal)) {
        lengths[at++] = static_cast<std::uint8_t>(symbol.value());
        continue;
      }
      const bool is_previous = symbol.extra() == k_previous_extra;
      const std::size_t repeated = symbol.value() + extra;
      if ((is_previous && at == 0) || repeated > all - at) return false;
      std::fill_n(lengths.begin() + static_cast<std::ptrdiff_t>(at), repeated,
                  is_previous ? lengths[at - 1] : std::uint8_t{0});
      at += repeated;
    }
    return lengths[k_end_of_block] > 0 && are_complete(std::span(lengths).first(all));
  }

  [[nodiscard]] bool are_complete(std::span<const std::uint8_t> lengths) const {
    constexpr std::uint32_t k_all = std::uint32_t{1} << k_longest_code;
    std::uint32_t literals = 0;
    for (const std::uint8_t bits : lengths.first(literals_))
      literals += share(bits, k_longest_code);
    if (literals != k_all) return false;
    std::uint32_t distances = 0;
    std::size_t used = 0;
    for (const std::uint8_t bits : lengths.subspan(literals_)) {
      distances += share(bits, k_longest_code);
      used += bits > 0 ? 1 : 0;
    }
    return distances == k_all || used <= 1;
  }

  const BitView& view_;
  std::uint64_t bit_;
  std::uint64_t& budget_;
  std::size_t literals_ = 0;
  std::size_t distances_ = 0;
};

// The stored block whose length is at this byte: how many bytes it has.
std::optional<std::size_t> stored_at(const BitView& view, std::uint64_t byte) {
  if (8 * (byte + 4) > view.size()) return std::nullopt;
  const std::uint64_t word = view.at(8 * byte);
  const std::size_t size = word & 0xffff;
  if ((word >> 16 & 0xffff) != (~word & 0xffff)) return std::nullopt;
  return size;
}

bool is_good_stored(const BitView& view, std::uint64_t byte, std::size_t size,
                    std::uint64_t& headers) {
  const std::uint64_t behind = 8 * (byte + 4 + size);
  if (behind + 40 > view.size()) return false;
  const std::uint64_t next = view.at(behind);
  if ((next & 7) == 0) return stored_at(view, behind / 8 + 1).has_value();
  return (dynamic_heads(next) & 1) != 0 && DynamicHeader(view, behind, headers).is_right();
}

// `from`: of the search, before which nothing is looked at.
unsigned zeros_before(const BitView& view, std::uint64_t bit, std::uint64_t from) {
  unsigned zeros = 0;
  while (zeros < k_most_zeros && bit > from + zeros && (view.at(bit - zeros - 1) & 1) == 0) ++zeros;
  return zeros;
}

constexpr std::size_t k_window = Deflate::k_window;
// What looks like a block and is none is rare, unless it was made on purpose.
constexpr int k_most_attempts = 8;
// Of random bits, one in 2,250 begins what looks like a block's header. In data that were made for
// it, each sixth does, and each costs a microsecond.
constexpr std::uint64_t k_bits_of_header = 512;
constexpr std::uint64_t k_least_headers = 1024;
// Blocks that are smaller than that cost more to begin than to decode.
constexpr std::size_t k_least_block_bytes = 64;

}  // namespace

std::optional<BlockStart> find_block(Bytes data, std::uint64_t from, std::uint64_t end,
                                     const std::atomic<bool>& stop, std::uint64_t& headers) {
  const BitView view(data);
  end = std::min(end, view.size());
  for (std::uint64_t bit = from; bit < end && headers > 0 && !stop; bit += k_heads) {
    const std::uint64_t next = view.at(bit);
    const std::uint64_t stored = stored_heads(next, bit);
    for (std::uint64_t heads = dynamic_heads(next) | stored; heads != 0; heads &= heads - 1) {
      const auto i = static_cast<unsigned>(std::countr_zero(heads));
      const std::uint64_t at = bit + i;
      if (at >= end) break;
      if ((stored >> i & 1) == 0) {
        if (DynamicHeader(view, at, headers).is_right()) return BlockStart{at, 0};
        continue;
      }
      const std::uint64_t byte = (at + 3) / 8;
      const auto size = stored_at(view, byte);
      if (size && is_good_stored(view, byte, *size, headers))
        return BlockStart{at, zeros_before(view, at, from)};
    }
  }
  return std::nullopt;
}

bool DeflateChunk::decode(Bytes data, std::uint64_t limit, std::vector<DecodedBlock> blocks,
                          std::size_t most_marks, const std::atomic<bool>& stop) {
  blocks_ = std::move(blocks);
  std::uint64_t from = 0;
  const std::uint64_t most_headers = k_least_headers + limit / k_bits_of_header;
  std::uint64_t headers_left = most_headers;
  for (int attempts = 0; attempts < k_most_attempts && from < limit; ++attempts) {
    const auto found = find_block(data, from, limit, stop, headers_left);
    headers_ = most_headers - headers_left;
    if (!found) return false;
    begin_ = *found;
    const bool is_decoded = decode_from(data, limit, most_marks, stop);
    if (is_given_up_ || is_too_large_) return is_decoded && !is_given_up_;
    if (is_decoded) return true;
    from = begin_.bit + 1;
  }
  return false;
}

// False: not even one block.
bool DeflateChunk::decode_from(Bytes data, std::uint64_t limit, std::size_t most_marks,
                               const std::atomic<bool>& stop) {
  at_ = {begin_.bit, 0, 0};
  begun_ = 0;
  // A thread keeps its decoder, which is large.
  thread_local Blocks decoder;
  decoder.begin(static_cast<unsigned>(begin_.bit % 8), k_window);
  decoder.marks().begin(k_window, most_marks);
  run(decoder, data.subspan(begin_.bit / 8), limit, stop);
  if (at_.bit == begin_.bit) return false;
  const auto runs = decoder.marks().runs().subspan(1);
  marks_.assign(runs.begin(), runs.end());
  cut();
  return true;
}

// Notes each place between two blocks.
void DeflateChunk::run(Blocks& from, Bytes data, std::uint64_t limit,
                       const std::atomic<bool>& stop) {
  using State = Blocks::State;
  const std::uint64_t begin = at_.bit / 8;
  const std::size_t size = data.size();
  const std::size_t most_ends = 1024 + size / k_least_block_bytes;
  for (;;) {
    const State state = from.run(data);
    if (from.is_last() || state == State::damaged || state == State::end) return;
    is_too_large_ = !append(from.fresh());
    if (is_too_large_) return;
    from.drop(from.fresh().size());
    if (state == State::input) return;
    is_given_up_ = stop || from.marks().is_full() || (state == State::block && ++ends_ > most_ends);
    if (is_given_up_) return;
    if (state != State::block) continue;
    at_ = {8 * (begin + size - data.size()) - from.bits_held(), begun_,
           begun_ > 0 ? blocks_[begun_ - 1].size : 0};
    if (at_.bit >= limit) return;
  }
}

bool DeflateChunk::append(Bytes bytes) {
  while (!bytes.empty()) {
    if (begun_ == 0 || blocks_[begun_ - 1].size == blocks_[begun_ - 1].room().size()) {
      if (begun_ == blocks_.size()) return false;
      blocks_[begun_++].size = 0;
    }
    DecodedBlock& block = blocks_[begun_ - 1];
    const auto room = block.room().subspan(block.size);
    const std::size_t count = std::min(room.size(), bytes.size());
    std::memcpy(room.data(), bytes.data(), count);
    block.size += count;
    bytes = bytes.subspan(count);
  }
  return true;
}

// To the last place between two blocks.
void DeflateChunk::cut() {
  blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(at_.blocks), blocks_.end());
  if (!blocks_.empty()) blocks_.back().size = at_.size;
}

std::size_t DeflateChunk::filled() const {
  std::size_t bytes = 0;
  for (const DecodedBlock& block : blocks_) bytes += block.size;
  return bytes;
}

std::optional<std::vector<DecodedBlock>> DeflateChunk::resolve(Bytes window) {
  window = window.last(std::min(window.size(), k_window));
  const std::size_t unknown = k_window - window.size();
  const std::size_t end = k_window + filled();
  for (const DeflateMarks::Run& run : marks_) {
    if (run.at >= end) break;
    if (run.from < unknown) return std::nullopt;
    const Bytes from = window.subspan(run.from - unknown);
    put_in(run.at - k_window, std::min<std::size_t>(run.length, end - run.at), from, run.is_one);
  }
  return std::move(blocks_);
}

// All blocks have the same room.
void DeflateChunk::put_in(std::size_t at, std::size_t length, Bytes from, bool is_one) {
  const std::size_t room = blocks_.front().room().size();
  while (length > 0) {
    const auto to = blocks_[at / room].room().subspan(at % room);
    const std::size_t count = std::min(to.size(), length);
    if (is_one) {
      std::fill_n(to.begin(), count, from.front());
    } else {
      std::copy_n(from.begin(), count, to.begin());
      from = from.subspan(count);
    }
    at += count;
    length -= count;
  }
}

}  // namespace nodestage
