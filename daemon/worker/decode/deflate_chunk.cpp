#include "daemon/worker/decode/deflate_chunk.hpp"

#include <algorithm>
#include <cstring>

namespace nodestage {
namespace {

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

bool DeflateChunk::decode(Bytes data, std::uint64_t limit, std::vector<Part::Block> blocks,
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
    Part::Block& block = blocks_[begun_ - 1];
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
  for (const Part::Block& block : blocks_) bytes += block.size;
  return bytes;
}

std::optional<std::vector<Part::Block>> DeflateChunk::resolve(Bytes window) {
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
