#include "daemon/worker/decode/deflate_chunk.hpp"

#include <algorithm>
#include <cstring>

namespace nodestage {
namespace {

using Mark = std::uint16_t;
constexpr Mark k_first_mark = 256;  // for the first byte of the window; smaller ones are bytes
constexpr std::size_t k_window = Deflate::k_window;
// What looks like a block and is none is rare, unless it was made on purpose.
constexpr int k_most_attempts = 8;
// Of random bits, one in 2,250 begins what looks like a block's header. Data that were made for it
// have seven times as many in a single byte, and each costs a microsecond.
constexpr std::uint64_t k_bits_of_header = 512;
constexpr std::uint64_t k_least_headers = 1024;
// Blocks that are smaller than that cost more to begin than to decode.
constexpr std::size_t k_least_block_bytes = 64;

const std::vector<Mark>& unknown_window() {
  static const std::vector<Mark> window = [] {
    std::vector<Mark> marks(k_window);
    for (std::size_t i = 0; i < k_window; ++i) marks[i] = static_cast<Mark>(k_first_mark + i);
    return marks;
  }();
  return window;
}

bool is_known(std::span<const Mark> marks) {
  constexpr std::size_t k_some = 1024;
  for (; !marks.empty(); marks = marks.first(marks.size() - std::min(marks.size(), k_some))) {
    Mark all = 0;
    for (const Mark mark : marks.last(std::min(marks.size(), k_some)))
      all = static_cast<Mark>(all | mark);
    if (all >= k_first_mark) return false;
  }
  return true;
}

}  // namespace

bool DeflateChunk::decode(Bytes data, std::uint64_t limit, std::vector<Part::Block> blocks,
                          const std::atomic<bool>& stop) {
  blocks_ = std::move(blocks);
  std::uint64_t from = 0;
  const std::uint64_t most_headers = k_least_headers + limit / k_bits_of_header;
  std::uint64_t headers_left = most_headers;
  for (int attempts = 0; attempts < k_most_attempts && from < limit; ++attempts) {
    const auto found = find_block(data, from, limit, stop, headers_left);
    headers_ = most_headers - headers_left;
    if (!found) return false;
    begin_ = *found;
    const bool is_decoded = decode_from(data, limit, stop);
    if (is_given_up_ || is_too_large_) return is_decoded && !is_given_up_;
    if (is_decoded) return true;
    from = begin_.bit + 1;
  }
  return false;
}

// False: not even one block.
bool DeflateChunk::decode_from(Bytes data, std::uint64_t limit, const std::atomic<bool>& stop) {
  at_ = {begin_.bit, 0, 0, 0};
  begun_ = marked_ = 0;
  const auto skipped = static_cast<unsigned>(begin_.bit % 8);
  // A thread keeps its decoders, which are large.
  thread_local Blocks<Mark> marks;
  thread_local Blocks<std::uint8_t> bytes;
  marks.begin(skipped, unknown_window());
  if (run(marks, data.subspan(begin_.bit / 8), limit, stop)) {
    std::vector<std::uint8_t> window(k_window);
    const auto known = marks.history();
    std::transform(known.begin(), known.end(), window.begin(),
                   [](Mark mark) { return static_cast<std::uint8_t>(mark); });
    at_.marked = marked_ = begun_;
    bytes.begin(static_cast<unsigned>(at_.bit % 8), window);
    run(bytes, data.subspan(at_.bit / 8), limit, stop);
  }
  if (at_.bit == begin_.bit) return false;
  cut();
  return true;
}

// Notes each place between two blocks. True: it is at a place where the window is known.
template <class Symbol>
bool DeflateChunk::run(Blocks<Symbol>& from, Bytes data, std::uint64_t limit,
                       const std::atomic<bool>& stop) {
  using State = typename Blocks<Symbol>::State;
  constexpr bool k_is_marked = sizeof(Symbol) > 1;
  const std::uint64_t begin = at_.bit / 8;
  const std::size_t size = data.size();
  const std::size_t most_ends = 1024 + size / k_least_block_bytes;
  for (;;) {
    const State state = from.run(data);
    if (from.is_last() || state == State::damaged || state == State::end) return false;
    is_too_large_ = !append(std::as_bytes(from.fresh()));
    if (is_too_large_) return false;
    from.drop(from.fresh().size());
    if (state == State::input) return false;
    is_given_up_ = stop || (state == State::block && ++ends_ > most_ends);
    if (is_given_up_) return false;
    if (state != State::block) continue;
    const std::uint64_t bit = 8 * (begin + size - data.size()) - from.bits_held();
    at_ = {bit, begun_, begun_ > 0 ? blocks_[begun_ - 1].size : 0, k_is_marked ? begun_ : marked_};
    if (bit >= limit) return false;
    if constexpr (k_is_marked) {
      if (bit > begin_.bit && is_known(from.history())) return true;
    }
  }
}

// Bytes follow marks in a block of their own.
bool DeflateChunk::append(Bytes bytes) {
  while (!bytes.empty()) {
    const bool is_begun = begun_ > marked_;
    if (!is_begun || blocks_[begun_ - 1].size == blocks_[begun_ - 1].room().size()) {
      if (begun_ == blocks_.size()) return false;
      blocks_[begun_++].size = 0;
    }
    Part::Block& block = blocks_[begun_ - 1];
    const auto room = block.room().subspan(block.size);
    const std::size_t count = std::min(room.size(), bytes.size());
    std::copy_n(bytes.begin(), count, room.begin());
    block.size += count;
    bytes = bytes.subspan(count);
  }
  return true;
}

// To the last place between two blocks.
void DeflateChunk::cut() {
  blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(at_.blocks), blocks_.end());
  if (!blocks_.empty()) blocks_.back().size = at_.size;
  marked_ = at_.marked;
}

std::size_t DeflateChunk::filled() const {
  std::size_t bytes = 0;
  for (const Part::Block& block : blocks_) bytes += block.size;
  return bytes;
}

std::optional<std::vector<Part::Block>> DeflateChunk::resolve(Bytes window) {
  std::vector<std::byte> meanings(k_first_mark + k_window);
  for (std::size_t i = 0; i < k_first_mark; ++i) meanings[i] = static_cast<std::byte>(i);
  window = window.last(std::min(window.size(), k_window));
  std::copy(window.begin(), window.end(),
            meanings.end() - static_cast<std::ptrdiff_t>(window.size()));
  const std::size_t first_known = k_first_mark + k_window - window.size();
  bool is_right = true;
  for (std::size_t i = 0; i < marked_; ++i) {
    Part::Block& block = blocks_[i];
    const std::span<std::byte> bytes = block.room();
    block.size /= sizeof(Mark);
    for (std::size_t at = 0; at < block.size; ++at) {
      Mark mark = 0;
      std::memcpy(&mark, &bytes[sizeof mark * at], sizeof mark);
      is_right &= mark < k_first_mark || mark >= first_known;
      bytes[at] = meanings[mark];
    }
  }
  if (!is_right) return std::nullopt;
  return std::move(blocks_);
}

}  // namespace nodestage
