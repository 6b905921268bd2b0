#include "daemon/worker/decode/deflate64_codec.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace nodestage {
namespace {

constexpr unsigned k_longest_code = 15;
constexpr std::size_t k_window = std::size_t{1} << 16;
constexpr std::size_t k_most_symbols = 288;
constexpr std::size_t k_distances = 32;
constexpr unsigned k_end_of_block = 256;

struct Range {
  std::uint32_t base;
  std::uint8_t extra;  // bits that are added to it
};

// For the codes from 257 on.
constexpr Range k_lengths[] = {
    {3, 0},  {4, 0},  {5, 0},  {6, 0},   {7, 0},   {8, 0},   {9, 0},   {10, 0},  {11, 1}, {13, 1},
    {15, 1}, {17, 1}, {19, 2}, {23, 2},  {27, 2},  {31, 2},  {35, 3},  {43, 3},  {51, 3}, {59, 3},
    {67, 4}, {83, 4}, {99, 4}, {115, 4}, {131, 5}, {163, 5}, {195, 5}, {227, 5}, {3, 16}};

constexpr Range distance_range(unsigned code) {
  if (code < 4) return {code + 1, 0};
  const unsigned extra = code / 2 - 1;
  return {((2U + code % 2) << extra) + 1, static_cast<std::uint8_t>(extra)};
}

// A prefix code, looked up by the next 15 bits: the first bit is the lowest.
class Code {
 public:
  struct Symbol {
    std::uint16_t value;
    std::uint8_t bits;  // 0: no symbol begins like this
  };

  // False: more codes than possible.
  bool set(std::span<const std::uint8_t> bits_of_symbol) {
    std::array<std::uint32_t, k_longest_code + 1> count{};
    for (const std::uint8_t bits : bits_of_symbol)
      if (bits > 0) ++count[bits];
    std::array<std::uint32_t, k_longest_code + 2> next{};
    for (unsigned bits = 1; bits <= k_longest_code; ++bits)
      next[bits + 1] = (next[bits] + count[bits]) << 1;
    if (next[k_longest_code + 1] > 2U << k_longest_code) return false;
    std::fill(symbols_.begin(), symbols_.end(), Symbol{});
    for (std::size_t value = 0; value < bits_of_symbol.size(); ++value) {
      const std::uint8_t bits = bits_of_symbol[value];
      if (bits > 0) fill(next[bits]++, {static_cast<std::uint16_t>(value), bits});
    }
    return true;
  }

  [[nodiscard]] Symbol at(std::uint64_t bits) const { return symbols_[bits % symbols_.size()]; }

 private:
  void fill(std::uint32_t code, Symbol symbol) {
    std::uint32_t reversed = 0;
    for (unsigned i = 0; i < symbol.bits; ++i)
      reversed |= (code >> i & 1U) << (symbol.bits - 1 - i);
    for (std::size_t at = reversed; at < symbols_.size(); at += std::size_t{1} << symbol.bits)
      symbols_[at] = symbol;
  }

  std::vector<Symbol> symbols_ = std::vector<Symbol>(std::size_t{1} << k_longest_code);
};

class Deflate64 final : public Codec {
 public:
  Status begin_frame() override {
    part_ = Part::block;
    bits_ = bit_count_ = 0;
    is_faulty_ = is_last_ = false;
    written_ = copy_left_ = 0;
    return {};
  }

  Result<Step> decode(Bytes in, std::span<std::byte> out) override {
    in_ = in;
    out_ = out;
    Advance advance = Advance::yes;
    while (advance == Advance::yes) advance = go_on();
    if (part_ == Part::end || out_.empty()) give_back(in.size() - in_.size());
    const Step step{in.size() - in_.size(), out.size() - out_.size(), part_ == Part::end};
    if (is_faulty_) return failed({0, "Deflate64 data"}, step.consumed, step.produced);
    return step;
  }

 private:
  enum class Part {
    block,
    stored_size,
    stored,
    counts,
    code_lengths,
    lengths,
    symbol,
    distance,
    copy,
    end
  };
  enum class Advance { yes, no };  // no: it needs input or room, or the data are faulty

  Advance go_on() {
    switch (part_) {
      case Part::block:
        return take_block();
      case Part::stored_size:
        return take_stored_size();
      case Part::stored:
        return take_stored();
      case Part::counts:
        return take_counts();
      case Part::code_lengths:
        return take_code_lengths();
      case Part::lengths:
        return take_lengths();
      case Part::symbol:
        return take_symbols();
      case Part::distance:
        return take_distance();
      case Part::copy:
        return copy();
      case Part::end:
        break;
    }
    return Advance::no;
  }

  Advance fail() {
    is_faulty_ = true;
    return Advance::no;
  }

  Advance enter(Part part) {
    part_ = part;
    return Advance::yes;
  }

  // --- bits -------------------------------------------------------------------------------------
  // Between two calls, fewer bits are held than are needed next: bytes are taken one by one when
  // needed, and those that were taken in advance are given back.

  bool add_byte() {
    if (in_.empty()) return false;
    bits_ |= std::to_integer<std::uint64_t>(in_.front()) << bit_count_;
    bit_count_ += 8;
    in_ = in_.subspan(1);
    return true;
  }

  bool need(unsigned count) {
    while (bit_count_ < count) {
      if (!add_byte()) return false;
    }
    return true;
  }

  std::uint32_t take(unsigned count) {
    const auto value = static_cast<std::uint32_t>(bits_ & ((std::uint64_t{1} << count) - 1));
    bits_ >>= count;
    bit_count_ -= count;
    return value;
  }

  // Only bytes that this call took.
  void give_back(std::size_t taken) {
    const std::size_t bytes = std::min<std::size_t>(bit_count_ / 8, taken);
    in_ = {in_.data() - bytes, in_.size() + bytes};
    bit_count_ -= static_cast<unsigned>(8 * bytes);
    bits_ &= (std::uint64_t{1} << bit_count_) - 1;
  }

  // Takes nothing. A symbol with no bits: more input is needed, or the data are faulty.
  Code::Symbol next_symbol(const Code& code) {
    for (;;) {
      const Code::Symbol symbol = code.at(bits_);
      if (symbol.bits > 0 && symbol.bits <= bit_count_) return symbol;
      if (bit_count_ >= k_longest_code) {
        fail();
        return {};
      }
      if (!add_byte()) return {};
    }
  }

  // --- a block's start
  // -----------------------------------------------------------------------------

  Advance take_block() {
    if (is_last_) return enter(Part::end);
    if (!need(3)) return Advance::no;
    is_last_ = take(1) != 0;
    switch (take(2)) {
      case 0:
        take(bit_count_ % 8);
        return enter(Part::stored_size);
      case 1:
        set_fixed_codes();
        return enter(Part::symbol);
      case 2:
        return enter(Part::counts);
      default:
        return fail();
    }
  }

  void set_fixed_codes() {
    std::array<std::uint8_t, k_most_symbols> bits{};
    std::fill(bits.begin(), bits.end(), 8);
    std::fill(bits.begin() + 144, bits.begin() + 256, 9);
    std::fill(bits.begin() + 256, bits.begin() + 280, 7);
    literals_.set(bits);
    std::fill(bits.begin(), bits.begin() + k_distances, 5);
    distances_.set(std::span(bits).first(k_distances));
  }

  Advance take_stored_size() {
    if (!need(32)) return Advance::no;
    copy_left_ = take(16);
    if (take(16) != (~copy_left_ & 0xffffU)) return fail();
    return enter(Part::stored);
  }

  Advance take_stored() {
    for (; copy_left_ > 0; --copy_left_) {
      if (out_.empty() || !need(8)) return Advance::no;
      put(static_cast<std::uint8_t>(take(8)));
    }
    return enter(Part::block);
  }

  Advance take_counts() {
    if (!need(14)) return Advance::no;
    literal_count_ = 257 + take(5);
    symbol_count_ = literal_count_ + 1 + take(5);
    code_length_count_ = 4 + take(4);
    lengths_.fill(0);
    next_length_ = 0;
    return enter(Part::code_lengths);
  }

  Advance take_code_lengths() {
    static constexpr std::uint8_t k_order[] = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                               11, 4,  12, 3, 13, 2, 14, 1, 15};
    for (; next_length_ < code_length_count_; ++next_length_) {
      if (!need(3)) return Advance::no;
      lengths_[k_order[next_length_]] = static_cast<std::uint8_t>(take(3));
    }
    if (!literals_.set(std::span(lengths_).first(std::size(k_order)))) return fail();
    lengths_.fill(0);
    next_length_ = 0;
    return enter(Part::lengths);
  }

  Advance take_lengths() {
    static constexpr Range k_repeats[] = {{3, 2}, {3, 3}, {11, 7}};  // of the codes from 16 on
    while (next_length_ < symbol_count_) {
      const Code::Symbol symbol = next_symbol(literals_);
      if (symbol.bits == 0) return Advance::no;
      const Range repeat = symbol.value < 16 ? Range{1, 0} : k_repeats[symbol.value - 16];
      if (!need(symbol.bits + repeat.extra)) return Advance::no;
      take(symbol.bits);
      const std::size_t count = repeat.base + take(repeat.extra);
      if (count > symbol_count_ - next_length_) return fail();
      if (symbol.value == 16 && next_length_ == 0) return fail();
      std::uint8_t bits = 0;
      if (symbol.value < 16) bits = static_cast<std::uint8_t>(symbol.value);
      if (symbol.value == 16) bits = lengths_[next_length_ - 1];
      std::fill_n(lengths_.begin() + next_length_, count, bits);
      next_length_ += count;
    }
    const auto lengths = std::span(lengths_).first(symbol_count_);
    if (!literals_.set(lengths.first(literal_count_))) return fail();
    if (!distances_.set(lengths.subspan(literal_count_))) return fail();
    return enter(Part::symbol);
  }

  // --- its data ---------------------------------------------------------------------------------

  Advance take_symbols() {
    while (!out_.empty()) {
      if (in_.size() >= 8) need(48);  // a byte at a time is slower
      const Code::Symbol symbol = next_symbol(literals_);
      if (symbol.bits == 0) return Advance::no;
      if (symbol.value < k_end_of_block) {
        take(symbol.bits);
        put(static_cast<std::uint8_t>(symbol.value));
        continue;
      }
      if (symbol.value == k_end_of_block) {
        take(symbol.bits);
        return enter(Part::block);
      }
      if (symbol.value - 257U >= std::size(k_lengths)) return fail();
      const Range range = k_lengths[symbol.value - 257U];
      if (!need(symbol.bits + range.extra)) return Advance::no;
      take(symbol.bits);
      copy_left_ = range.base + take(range.extra);
      return enter(Part::distance);
    }
    return Advance::no;
  }

  Advance take_distance() {
    const Code::Symbol symbol = next_symbol(distances_);
    if (symbol.bits == 0) return Advance::no;
    const Range range = distance_range(symbol.value);
    if (!need(symbol.bits + range.extra)) return Advance::no;
    take(symbol.bits);
    distance_ = range.base + take(range.extra);
    if (distance_ > written_) return fail();
    return enter(Part::copy);
  }

  Advance copy() {
    for (; copy_left_ > 0; --copy_left_) {
      if (out_.empty()) return Advance::no;
      put(window_[(written_ - distance_) % k_window]);
    }
    return enter(Part::symbol);
  }

  void put(std::uint8_t byte) {
    window_[written_++ % k_window] = byte;
    out_.front() = std::byte{byte};
    out_ = out_.subspan(1);
  }

  Bytes in_;
  std::span<std::byte> out_;
  std::uint64_t bits_ = 0;  // the next one is the lowest
  unsigned bit_count_ = 0;
  bool is_faulty_ = false;
  Part part_ = Part::block;
  bool is_last_ = false;         // of the blocks, the current one
  std::uint64_t written_ = 0;    // bytes
  std::uint32_t copy_left_ = 0;  // of stored data, or of repeated data
  std::uint32_t distance_ = 0;
  std::size_t literal_count_ = 0;
  std::size_t symbol_count_ = 0;  // including the distances
  std::size_t code_length_count_ = 0;
  std::size_t next_length_ = 0;
  std::array<std::uint8_t, k_most_symbols + k_distances> lengths_{};
  Code literals_;
  Code distances_;
  std::vector<std::uint8_t> window_ = std::vector<std::uint8_t>(k_window);
};

}  // namespace

std::unique_ptr<Codec> make_deflate64_codec() { return std::make_unique<Deflate64>(); }

}  // namespace nodestage
