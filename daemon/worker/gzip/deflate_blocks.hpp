// DeflateBlocks: deflate data (RFC 1951) of any form, decoded block by block in whatever pieces
// they come. Format: the differences between Deflate and Deflate64. Marks: DeflateMarks where the
// bytes before the first block are not known (deflate_chunk.hpp), else NoMarks.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/gzip/deflate_code.hpp"

namespace nodestage {

template <class Format, class Marks = NoMarks>
class DeflateBlocks {
 public:
  enum class State {
    input,  // all input is used up, more is needed
    room,   // take what was decoded, then go on
    block,  // between two blocks, or before the first one
    end,
    damaged
  };
  static constexpr std::size_t k_window = Format::k_window;

  // The first block begins after so many bits of the first byte. `unknown`: how many bytes
  // before it may be repeated, although they are not known.
  void begin(unsigned skipped_bits = 0, std::size_t unknown = 0) {
    part_ = Part::block;
    state_ = State::block;
    bits_ = {};
    to_skip_ = skipped_bits;
    is_last_ = is_at_block_ = false;
    copy_left_ = 0;
    valid_from_ = k_window - unknown;
    filled_ = taken_ = k_window;
    slid_ = 0;
  }
  [[nodiscard]] Marks& marks() { return marks_; }

  // Takes what it uses from the beginning of `in`. In a state other than `input`, it has taken no
  // whole byte in advance, as far as the bytes are this call's.
  State run(Bytes& in) {
    if (filled_ == k_window + k_room && taken_ == filled_) slide();
    bits_.in = in;
    Advance advance = Advance::yes;
    while (advance == Advance::yes) advance = go_on();
    if (state_ != State::input) bits_.give_back(in.size() - bits_.in.size());
    in = bits_.in;
    return state_;
  }

  // What was decoded and not dropped yet.
  [[nodiscard]] Bytes fresh() const {
    return std::as_bytes(std::span(buffer_)).subspan(taken_, filled_ - taken_);
  }
  void drop(std::size_t bytes) { taken_ += bytes; }

  // Bits that were taken from the input and not used.
  [[nodiscard]] unsigned bits_held() const { return bits_.count; }
  // Whether the block is the last one, as soon as its header was read.
  [[nodiscard]] bool is_last() const { return is_last_; }

 private:
  using Kind = CodedSymbol::Kind;
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
  enum class Advance { yes, no };
  static constexpr std::size_t k_room = std::size_t{1} << 16;
  static constexpr std::size_t k_longest = 258;    // of what is copied without looking for room
  static constexpr std::size_t k_beyond = 64;      // that copying may write in excess
  static constexpr std::size_t k_fast_input = 24;  // of three refills

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
    return stop(State::end);
  }

  Advance stop(State state) {
    state_ = state;
    return Advance::no;
  }
  Advance fail() { return stop(State::damaged); }
  Advance enter(Part part) {
    part_ = part;
    return Advance::yes;
  }

  [[nodiscard]] std::size_t room() const { return k_window + k_room - filled_; }

  void slide() {
    const auto begin = buffer_.begin() + static_cast<std::ptrdiff_t>(filled_ - k_window);
    std::copy(begin, begin + k_window, buffer_.begin());
    valid_from_ -= std::min(valid_from_, filled_ - k_window);
    slid_ += filled_ - k_window;
    filled_ = taken_ = k_window;
  }

  // --- bits -------------------------------------------------------------------------------------

  bool need(unsigned count) {
    if (bits_.need(count)) return true;
    state_ = State::input;
    return false;
  }
  std::uint32_t take(unsigned count) { return bits_.take(count); }

  // Takes nothing. A symbol with no bits: more input is needed, or the data are damaged.
  template <class Code>
  CodedSymbol next_symbol(const Code& code) {
    const auto table = code.table();
    for (;;) {
      const CodedSymbol symbol = table.at(bits_.held);
      if (symbol.bits() > 0 && symbol.bits() <= bits_.count) return symbol;
      if (bits_.count >= k_longest_code) {
        fail();
        return {};
      }
      if (!need(bits_.count + 1)) return {};
    }
  }

  // --- a block's start --------------------------------------------------------------------------

  Advance take_block() {
    if (!need(to_skip_)) return Advance::no;
    take(std::exchange(to_skip_, 0));
    if (is_last_) return enter(Part::end);
    if (!std::exchange(is_at_block_, true)) return stop(State::block);
    if (!need(3)) return Advance::no;
    is_at_block_ = false;
    is_last_ = take(1) != 0;
    switch (take(2)) {
      case 0:
        take(bits_.count % 8);
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
    literals_.set(k_fixed_literals, Format::k_literals);
    distances_.set(k_fixed_distances, Format::k_distances);
  }

  Advance take_stored_size() {
    if (!need(32)) return Advance::no;
    copy_left_ = take(16);
    if (take(16) != (~copy_left_ & 0xffffU)) return fail();
    return enter(Part::stored);
  }

  Advance take_stored() {
    while (copy_left_ > 0) {
      if (room() == 0) return stop(State::room);
      if (!need(8)) return Advance::no;
      for (; bits_.count >= 8 && copy_left_ > 0 && room() > 0; --copy_left_) put(take(8));
      const std::size_t count = std::min({std::size_t{copy_left_}, bits_.in.size(), room()});
      if (count > 0) std::memcpy(&buffer_[filled_], bits_.in.data(), count);
      bits_.in = bits_.in.subspan(count);
      filled_ += count;
      copy_left_ -= static_cast<std::uint32_t>(count);
    }
    return enter(Part::block);
  }

  Advance take_counts() {
    if (!need(14)) return Advance::no;
    literal_count_ = 257 + take(5);
    symbol_count_ = literal_count_ + 1 + take(5);
    code_length_count_ = 4 + take(4);
    if (literal_count_ > Format::k_most_literals ||
        symbol_count_ - literal_count_ > Format::k_most_distances)
      return fail();
    lengths_.fill(0);
    next_length_ = 0;
    return enter(Part::code_lengths);
  }

  Advance take_code_lengths() {
    for (; next_length_ < code_length_count_; ++next_length_) {
      if (!need(3)) return Advance::no;
      lengths_[k_code_length_order[next_length_]] = static_cast<std::uint8_t>(take(3));
    }
    const auto lengths = std::span(lengths_).first(std::size(k_code_length_order));
    if (!fits(literals_.set(lengths, k_code_lengths))) return fail();
    lengths_.fill(0);
    next_length_ = 0;
    return enter(Part::lengths);
  }

  Advance take_lengths() {
    while (next_length_ < symbol_count_) {
      const CodedSymbol symbol = next_symbol(literals_);
      if (symbol.bits() == 0) return Advance::no;
      if (!need(symbol.bits() + symbol.extra())) return Advance::no;
      take(symbol.bits());
      std::size_t count = 1;
      auto bits = static_cast<std::uint8_t>(symbol.value());
      if (!symbol.is(Kind::literal)) {
        const bool is_previous = symbol.extra() == k_previous_extra;
        if (is_previous && next_length_ == 0) return fail();
        bits = is_previous ? lengths_[next_length_ - 1] : std::uint8_t{0};
        count = symbol.value() + take(symbol.extra());
      }
      if (count > symbol_count_ - next_length_) return fail();
      std::fill_n(lengths_.begin() + static_cast<std::ptrdiff_t>(next_length_), count, bits);
      next_length_ += count;
    }
    return set_codes();
  }

  Advance set_codes() {
    const auto lengths = std::span(lengths_).first(symbol_count_);
    const auto distances = lengths.subspan(literal_count_);
    if (!fits(literals_.set(lengths.first(literal_count_), Format::k_literals))) return fail();
    const CodeFit fit = distances_.set(distances, Format::k_distances);
    // No distance, or one: an encoder cannot make a complete code of these.
    const auto used = distances.size() -
                      static_cast<std::size_t>(std::count(distances.begin(), distances.end(), 0));
    if (!fits(fit) && (fit == CodeFit::too_many || used > 1)) return fail();
    if (Format::k_is_strict && lengths[k_end_of_block] == 0) return fail();
    return enter(Part::symbol);
  }

  static bool fits(CodeFit fit) {
    return fit == CodeFit::complete || (!Format::k_is_strict && fit == CodeFit::incomplete);
  }

  // --- its data ---------------------------------------------------------------------------------

  Advance take_symbols() {
    for (;;) {
      if (bits_.in.size() >= k_fast_input && room() > k_longest + 8) {
        if (!take_fast()) return fail();
        if (copy_left_ > 0) return enter(Part::copy);
      }
      if (room() == 0) return stop(State::room);
      const CodedSymbol symbol = next_symbol(literals_);
      if (symbol.bits() == 0) return Advance::no;
      if (symbol.is(Kind::literal)) {
        take(symbol.bits());
        put(symbol.value());
        continue;
      }
      if (symbol.is(Kind::end)) {
        take(symbol.bits());
        return enter(Part::block);
      }
      if (!symbol.is(Kind::range)) return fail();
      if (!need(symbol.bits() + symbol.extra())) return Advance::no;
      take(symbol.bits());
      copy_left_ = symbol.value() + take(symbol.extra());
      return enter(Part::distance);
    }
  }

  Advance take_distance() {
    const CodedSymbol symbol = next_symbol(distances_);
    if (symbol.bits() == 0) return Advance::no;
    if (!symbol.is(Kind::range)) return fail();
    if (!need(symbol.bits() + symbol.extra())) return Advance::no;
    take(symbol.bits());
    distance_ = symbol.value() + take(symbol.extra());
    if (distance_ > filled_ - valid_from_) return fail();
    marks_.repeat(slid_ + filled_, distance_, copy_left_);
    return enter(Part::copy);
  }

  Advance copy() {
    for (; copy_left_ > 0; --copy_left_) {
      if (room() == 0) return stop(State::room);
      put(buffer_[filled_ - distance_]);
    }
    return enter(Part::symbol);
  }

  void put(std::uint32_t symbol) { buffer_[filled_++] = static_cast<std::uint8_t>(symbol); }

  // The same while there is more input and room than any symbol takes. False: damaged. It ends
  // before what it leaves to the others: the end of a block, bytes at the end of the input. A match
  // that is too long is left in copy_left_ and distance_.
  bool take_fast() {
    DeflateCursor at{bits_.in.data(), buffer_.data() + filled_, bits_.held, bits_.count};
    const std::byte* const last_in = bits_.in.data() + bits_.in.size() - k_fast_input;
    const std::uint8_t* const last_out = buffer_.data() + k_window + k_room - k_longest - 4;
    const std::uint8_t* const first = buffer_.data() + valid_from_;
    const auto literals = literals_.table();
    const auto distances = distances_.table();
    bool is_right = true;
    while (at.in <= last_in && at.out <= last_out) {
      at.refill();
      CodedSymbol symbol = literals.at(at.bits);
      for (int i = 0; i < 2 && symbol.is(Kind::literal); ++i) {
        at.put(symbol);
        symbol = literals.at(at.bits);
      }
      if (symbol.is(Kind::literal)) {
        at.put(symbol);
        continue;
      }
      if (!symbol.is(Kind::range)) break;
      at.refill();
      const std::uint32_t length = at.range(symbol);
      if (Format::k_is_long) at.refill();
      const CodedSymbol far = distances.at(at.bits);
      const std::uint32_t distance = far.is(Kind::range) ? at.range(far) : 0;
      is_right = distance > 0 && distance <= static_cast<std::size_t>(at.out - first);
      if (!is_right) break;
      if (length > k_longest) {
        copy_left_ = length;
        distance_ = distance;
        break;
      }
      if constexpr (Marks::k_is_on)
        marks_.repeat(slid_ + static_cast<std::size_t>(at.out - buffer_.data()), distance, length);
      at.copy(length, distance);
    }
    const auto taken = static_cast<std::size_t>(at.in - bits_.in.data());
    bits_.in = bits_.in.subspan(taken);
    filled_ = static_cast<std::size_t>(at.out - buffer_.data());
    bits_.held = at.bits;
    bits_.count = at.count;
    bits_.give_back(taken);
    return is_right;
  }

  State state_ = State::block;
  Part part_ = Part::block;
  DeflateBits bits_;
  unsigned to_skip_ = 0;
  bool is_last_ = false;         // of the blocks, the current one
  bool is_at_block_ = false;     // between blocks, and the caller knows it
  std::uint32_t copy_left_ = 0;  // of stored data, or of repeated data
  std::uint32_t distance_ = 0;
  std::size_t literal_count_ = 0;
  std::size_t symbol_count_ = 0;  // including the distances
  std::size_t code_length_count_ = 0;
  std::size_t next_length_ = 0;
  std::array<std::uint8_t, k_deflate_symbols + k_deflate_distances> lengths_{};
  LengthCode literals_;
  DistanceCode distances_;
  // The window, then what is decoded next.
  std::vector<std::uint8_t> buffer_ = std::vector<std::uint8_t>(k_window + k_room + k_beyond);
  std::size_t valid_from_ = k_window;  // what lies before it was not decoded
  std::size_t filled_ = k_window;
  std::size_t taken_ = k_window;
  std::size_t slid_ = 0;  // what was decoded before the window's first byte
  Marks marks_;
};

}  // namespace nodestage
