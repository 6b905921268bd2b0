#include "daemon/worker/gzip/deflate_code.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_most_symbols = 288;

// The code that follows `code`, both with their first bit as the lowest one.
std::uint32_t next_code(std::uint32_t code, unsigned bits) {
  std::uint32_t bit = std::uint32_t{1} << (bits - 1);
  while ((code & bit) != 0) bit >>= 1;
  return bit == 0 ? 0 : (code & (bit - 1)) | bit;
}

}  // namespace

template <unsigned FirstBits>
CodeFit PrefixCode<FirstBits>::set(std::span<const std::uint8_t> bits_of_symbol,
                                   std::span<const CodedSymbol> meanings) {
  std::array<std::uint16_t, k_longest_code + 2> begin{};  // of the symbols of each length, in order
  for (const std::uint8_t bits : bits_of_symbol)
    if (bits > 0) ++begin[bits + 1U];
  std::uint32_t used = 0;  // of the codes of the greatest length
  for (unsigned bits = 1; bits <= k_longest_code; ++bits) {
    used += std::uint32_t{begin[bits + 1U]} << (k_longest_code - bits);
    begin[bits + 1U] = static_cast<std::uint16_t>(begin[bits + 1U] + begin[bits]);
  }
  if (used > std::uint32_t{1} << k_longest_code) return CodeFit::too_many;
  const std::size_t count = begin[k_longest_code + 1];
  std::array<std::uint16_t, k_most_symbols> ordered{};
  for (std::size_t i = 0; i < bits_of_symbol.size(); ++i)
    if (bits_of_symbol[i] > 0) ordered[begin[bits_of_symbol[i]]++] = static_cast<std::uint16_t>(i);
  symbols_.resize(k_first);
  std::fill(symbols_.begin(), symbols_.end(), CodedSymbol());
  std::uint32_t code = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const unsigned bits = bits_of_symbol[ordered[i]];
    fill(code, meanings[ordered[i]].with_bits(bits));
    code = next_code(code, bits);
  }
  return used == std::uint32_t{1} << k_longest_code ? CodeFit::complete : CodeFit::incomplete;
}

template <unsigned FirstBits>
void PrefixCode<FirstBits>::fill(std::uint32_t code, CodedSymbol symbol) {
  const unsigned bits = symbol.bits();
  if (bits <= FirstBits) {
    for (std::size_t at = code; at < k_first; at += std::size_t{1} << bits) symbols_[at] = symbol;
    return;
  }
  const std::size_t prefix = code & (k_first - 1);
  if (!symbols_[prefix].is(CodedSymbol::Kind::longer)) {
    symbols_[prefix] =
        CodedSymbol(CodedSymbol::Kind::longer, static_cast<std::uint32_t>(symbols_.size()));
    symbols_.resize(symbols_.size() + k_longer);
  }
  const std::size_t longer = symbols_[prefix].value();
  for (std::size_t at = code >> FirstBits; at < k_longer;
       at += std::size_t{1} << (bits - FirstBits))
    symbols_[longer + at] = symbol;
}

template class PrefixCode<11>;
template class PrefixCode<9>;

void DeflateMarks::begin(std::size_t window, std::size_t most) {
  runs_.assign(1, {0, 0, static_cast<std::uint16_t>(window)});
  end_ = window;
  most_ = most;
}

// What repeats itself is known piece by piece. Most of that is one byte.
void DeflateMarks::follow(std::uint32_t at, std::uint32_t distance, std::uint32_t length) {
  if (distance == 1) return fill(at - distance, at, length);
  while (length > 0 && !is_full()) {
    const std::uint32_t piece = std::min(length, distance);
    copy(at - distance, at, piece);
    at += piece;
    length -= piece;
  }
}

// Returns the first run that ends behind it.
std::size_t DeflateMarks::find(std::uint32_t source) const {
  const auto first = std::partition_point(runs_.begin(), runs_.end(),
                                          [&](const Run& run) { return run.end() <= source; });
  return static_cast<std::size_t>(first - runs_.begin());
}

// `at` is not before the source's end.
void DeflateMarks::copy(std::uint32_t source, std::uint32_t at, std::uint32_t length) {
  const std::uint32_t source_end = source + length;
  for (std::size_t i = find(source); i < runs_.size() && runs_[i].at < source_end; ++i) {
    const Run run = runs_[i];
    const std::uint32_t begin = std::max(run.at, source);
    const std::uint32_t end = std::min(run.end(), source_end);
    if (begin >= end) break;
    const std::uint32_t from = run.is_one ? run.from : run.from + (begin - run.at);
    add({at + (begin - source), static_cast<std::uint16_t>(from),
         static_cast<std::uint16_t>(end - begin), run.is_one});
  }
}

void DeflateMarks::fill(std::uint32_t source, std::uint32_t at, std::uint32_t length) {
  const std::size_t i = find(source);
  if (i == runs_.size() || runs_[i].at > source) return;
  const Run run = runs_[i];
  const std::uint32_t from = run.is_one ? run.from : run.from + (source - run.at);
  add({at, static_cast<std::uint16_t>(from), static_cast<std::uint16_t>(length), true});
}

void DeflateMarks::add(const Run& run) {
  Run& last = runs_.back();
  const std::size_t next = last.is_one ? last.from : std::size_t{last.from} + last.length;
  const bool is_more = runs_.size() > 1 && last.end() == run.at && last.is_one == run.is_one &&
                       next == run.from && last.length + run.length <= UINT16_MAX;
  if (is_more) {
    last.length = static_cast<std::uint16_t>(last.length + run.length);
  } else {
    runs_.push_back(run);
  }
  end_ = run.end();
}

}  // namespace nodestage
