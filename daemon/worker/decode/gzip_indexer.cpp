#include "daemon/worker/decode/gzip_indexer.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "daemon/worker/decode/codec.hpp"
#include "daemon/worker/decode/frame_reader.hpp"
#include "daemon/worker/decode/gzip_header.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_read_bytes = std::size_t{1} << 20;
constexpr std::size_t k_trailer_bytes = 8;
constexpr unsigned k_header_bits = 3;  // of a block: is it the last one, and its kind
constexpr unsigned k_fixed_codes = 1;

}  // namespace

GzipIndexer::GzipIndexer(const Source& file, std::size_t spacing)
    : file_(file),
      spacing_(spacing),
      faults_(file, Coding::gzip),
      input_(0, {}),
      blocks_(std::make_unique<Blocks>()) {}

void GzipIndexer::read_from(std::uint64_t offset) {
  input_ = CompressedInput(offset, [this, offset]() mutable -> Result<Slice> {
    if (stop_) return Error{ECANCELED, "stopped"};
    const std::shared_ptr<std::byte[]> memory(new std::byte[k_read_bytes]);
    const std::span<std::byte> room(memory.get(), k_read_bytes);
    TRY_ASSIGN(const std::size_t count, file_.read_at(offset, room));
    offset += count;
    return Slice(memory, Bytes(room).first(count));
  });
}

// Never empty.
Result<Bytes> GzipIndexer::front() {
  TRY_ASSIGN(const std::size_t held, input_.ensure(1));
  if (held == 0) return faults_.cut_off(input_.offset());
  position_ = input_.offset();
  return input_.front();
}

Status GzipIndexer::run(const Write& write) {
  TRY_ASSIGN(head_, index_head_of(file_));
  TRY(write(encode_index_head(head_)));
  read_from(0);
  for (;; ++member_) {
    TRY_ASSIGN(const bool has_more, skip_zeros(input_));
    if (!has_more) break;
    TRY_ASSIGN(const std::size_t held, input_.ensure(k_magic_bytes));
    std::array<std::byte, k_magic_bytes> start{};
    const auto magic = std::span(start).first(std::min(held, start.size()));
    input_.copy(0, magic);
    if (!begins_frame(Coding::gzip, magic)) break;
    TRY(take_member(write));
  }
  TRY_ASSIGN(const std::string end, encode_place({}));
  return write(end);
}

Status GzipIndexer::take_member(const Write& write) {
  crc_ = 0;
  data_ = placed_data_ = 0;
  window_.clear();
  first_.clear();
  TRY(take_header());
  TRY(take_data(write));
  return take_trailer();
}

Status GzipIndexer::take_header() {
  GzipHeader header;
  while (!header.is_complete()) {
    TRY_ASSIGN(const Bytes in, front());
    const auto used = header.feed(in);
    if (!used) return faults_.damaged_at(input_.offset(), used.error().text());
    input_.skip(*used);
  }
  return {};
}

Status GzipIndexer::take_data(const Write& write) {
  blocks_->begin();
  for (;;) {
    TRY_ASSIGN(const Bytes in, front());
    Bytes rest = in;
    const Blocks::State state = blocks_->run(rest);
    const Bytes used = in.first(in.size() - rest.size());
    input_.skip(used.size());
    const Bytes fresh = blocks_->fresh();
    crc_ = crc32_of(fresh, crc_);
    data_ += fresh.size();
    remember(fresh);
    blocks_->drop(fresh.size());
    switch (state) {
      case Blocks::State::input:
      case Blocks::State::room:
        break;
      case Blocks::State::block:
        TRY(take_place(used, write));
        break;
      case Blocks::State::end:
        return {};
      case Blocks::State::damaged:
        return faults_.damaged_at(input_.offset(), "gzip data");
    }
  }
}

// Not where a part of a byte already has a whole header: the Inflater would not stop before it.
Status GzipIndexer::take_place(Bytes used, const Write& write) {
  const unsigned bits = blocks_->bits_held();
  const std::uint64_t byte = bit() / 8;
  if (data_ - placed_data_ < spacing_ || byte - placed_input_ < k_least_indexed_input || bits >= 8)
    return {};
  if (bits >= k_header_bits) {
    if (used.empty()) return {};
    const unsigned next = std::to_integer<unsigned>(used.back()) >> (8 - bits);
    if ((next >> 1 & 3U) == k_fixed_codes) return {};
  }
  TRY_ASSIGN(std::string text, encode_place({bit(), data_, member_, window_}));
  const bool is_first = placed_data_ == 0;
  placed_data_ = data_;
  placed_input_ = byte;
  if (is_first) {
    first_ = std::move(text);
    return {};
  }
  places_ += first_.empty() ? 1U : 2U;
  return write(std::exchange(first_, {}) + text);
}

void GzipIndexer::remember(Bytes bytes) {
  bytes = bytes.last(std::min(bytes.size(), k_index_window));
  const std::size_t kept = std::min(window_.size(), k_index_window - bytes.size());
  window_.erase(window_.begin(), window_.end() - static_cast<std::ptrdiff_t>(kept));
  window_.insert(window_.end(), bytes.begin(), bytes.end());
}

Status GzipIndexer::take_trailer() {
  const std::uint64_t offset = (bit() + 7) / 8;
  std::array<std::byte, k_trailer_bytes> trailer{};
  TRY_ASSIGN(const std::size_t count, file_.read_at(offset, trailer));
  if (count < trailer.size()) return faults_.cut_off(offset + count);
  if (little_endian(trailer) != crc_ ||
      little_endian(trailer, 4) != static_cast<std::uint32_t>(data_))
    return faults_.damaged_at(offset, "gzip checksum");
  all_data_ += data_;
  // What the blocks took in advance may be some of the trailer.
  const std::uint64_t after = offset + k_trailer_bytes;
  const std::uint64_t ahead = after - std::min(after, input_.offset());
  TRY_ASSIGN(const std::size_t held, input_.ensure(ahead));
  if (after < input_.offset() || held < ahead) {
    read_from(after);
  } else {
    input_.skip(ahead);
  }
  return {};
}

}  // namespace nodestage
