#include "daemon/worker/decode/decoder.hpp"

#include <algorithm>

#include "daemon/worker/basis/task_crew.hpp"
#include "daemon/worker/decode/frame_reader.hpp"
#include "daemon/worker/decode/start_decoding.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_first_bytes = std::size_t{1} << 20;  // a multiple of 512
constexpr std::size_t k_peeked_bytes = std::size_t{64} << 10;
// A file whose decoded data begin after this many blocks is not recognized as an archive.
constexpr std::size_t k_most_first_blocks = 16;

}  // namespace

Result<Decoder> Decoder::open(Source& source, const DecoderLimits& limits) {
  Decoder decoder(source, limits);
  TRY_ASSIGN(const Slice start, decoder.read_first());
  decoder.coding_ = recognise_coding(start.bytes());
  return decoder;
}

// Empty at the end, and when enough was read.
Result<Slice> Decoder::read_first() {
  if (first_.size() >= k_most_first_blocks) return Slice();
  const std::uint64_t rest = source_->size() - std::min(source_->position(), source_->size());
  // More than the rest, so that growth of the file is noticed.
  const std::size_t bytes = std::min<std::uint64_t>(k_first_bytes, (rest / 512 + 1) * 512);
  const std::shared_ptr<std::byte[]> memory(new std::byte[bytes]);
  TRY_ASSIGN(const std::size_t count, source_->read({memory.get(), bytes}));
  const Slice block(memory, Bytes(memory.get(), count));
  if (count > 0) first_.push_back(block);
  return block;
}

Result<Bytes> Decoder::peek() {
  if (coding_ != Coding::plain) return peek_decoded();
  return first_.empty() ? Bytes() : first_.front().bytes();
}

Result<Bytes> Decoder::peek_decoded() {
  CompressedInput input(0, [this, i = std::size_t{0}]() mutable {
    return i < first_.size() ? Result<Slice>(first_[i++]) : (++i, read_first());
  });
  const DecodeFaults texts = faults();
  FrameReader reader(input, coding_, make_codec(coding_), texts);
  peeked_.resize(k_peeked_bytes);
  const std::size_t bytes = reader.fill(peeked_);
  if (bytes == 0 && !reader.fault()) return reader.fault().error();
  return Bytes(peeked_).first(bytes);
}

Status Decoder::start() {
  TRY_ASSIGN(decoding_, start_decoding(*source_, std::exchange(first_, {}), coding_, limits_));
  return {};
}

Result<Slice> Decoder::next() {
  TRY(source_->meter().check());
  if (!fault_) return fault_.error();
  if (decoding_ == nullptr) {
    fault_ = guarded([&] { return start(); });
    if (!fault_) return fault_.error();
  }
  auto block = decoding_->next();
  if (!block) fault_ = block.error();
  if (block && block->empty()) junk_at_ = decoding_->junk_at();
  return block;
}

Status Decoder::drain() {
  if (coding_ == Coding::plain) return {};
  for (;;) {
    TRY_ASSIGN(const Slice block, next());
    if (block.empty()) return {};
  }
}

Error Decoder::cut_off() const { return faults().cut_off(position()); }

Error Decoder::damaged(std::string_view cause) const {
  return faults().damaged_before(position(), cause);
}

}  // namespace nodestage
