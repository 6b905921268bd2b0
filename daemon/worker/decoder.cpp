#include "daemon/worker/decoder.hpp"

#include <algorithm>

#include "common/human.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_block_bytes = std::size_t{1024} * 1024;

}  // namespace

Decoder::Decoder(Source& source)
    : source_(&source), in_(k_block_bytes), out_(k_block_bytes, k_decoder_blocks_held + 2) {}

Result<Decoder> Decoder::open(Source& source) {
  Decoder decoder(source);
  TRY(decoder.refill());
  decoder.coding_ = recognise_coding(decoder.input());
  decoder.codec_ = make_codec(decoder.coding_);
  if (decoder.codec_ != nullptr) TRY(decoder.next_frame());
  return decoder;
}

Result<Bytes> Decoder::peek() {
  TRY_ASSIGN(peeked_, next());
  return peeked_.bytes();
}

Result<Slice> Decoder::next() {
  if (!peeked_.empty()) return std::exchange(peeked_, {});
  if (!late_fault_) return std::exchange(late_fault_, Status()).error();
  const BufferPool::Buffer buffer = out_.take();
  TRY_ASSIGN(const std::size_t bytes, fill(buffer.memory));
  return buffer.filled(bytes);
}

Status Decoder::drain() {
  if (coding_ == Coding::plain) return {};
  for (;;) {
    TRY_ASSIGN(const Slice block, next());
    if (block.empty()) return {};
  }
}

// What is not compressed has no checksum of its own.
std::string Decoder::how_to_test() const {
  const std::string command = std::string(coding_test(coding_)) + " " + shown(source_->path());
  return (coding_ == Coding::plain ? "Compare it with the original: " : "Test it with: ") + command;
}

Error Decoder::cut_off() const {
  return fault(
      0,
      shown(source_->path()) + ": cut off after " + human_bytes(source_->position()) +
          ": the archive is truncated",
      "Was its creation or transfer stopped, by a quota or a time limit? " + how_to_test());
}

Error Decoder::damaged(std::string_view cause) const {
  return fault(0,
               shown(source_->path()) + ": damaged before byte " +
                   human_count(source_->position()) + ": " + std::string(cause),
               "Make or transfer it again. " + how_to_test());
}

Status Decoder::refill() {
  std::copy(in_.begin() + static_cast<std::ptrdiff_t>(begin_),
            in_.begin() + static_cast<std::ptrdiff_t>(end_), in_.begin());
  end_ -= begin_;
  begin_ = 0;
  TRY_ASSIGN(const std::size_t bytes, source_->read(std::span(in_).subspan(end_)));
  end_ += bytes;
  return {};
}

// A fault in the middle of a block is kept for the next call.
Result<std::size_t> Decoder::fill(std::span<std::byte> out) {
  std::size_t done = 0;
  while (done < out.size() && place_ != Place::at_end) {
    auto bytes = step(out.subspan(done));
    if (!bytes && done == 0) return bytes;
    if (!bytes) {
      late_fault_ = std::move(bytes.error());
      break;
    }
    done += *bytes;
  }
  return done;
}

// Some decoded bytes, perhaps none.
Result<std::size_t> Decoder::step(std::span<std::byte> out) {
  if (codec_ == nullptr) return plain_step(out);
  if (begin_ == end_) TRY(refill());
  if (place_ == Place::between_frames) {
    TRY(next_frame());
    if (place_ == Place::at_end) return std::size_t{0};
  }
  auto step = codec_->decode(input(), out);
  if (!step) return damaged(step.error().what);
  if (step->consumed == 0 && step->produced == 0 && !step->frame_ended) return cut_off();
  begin_ += step->consumed;
  if (step->frame_ended) place_ = Place::between_frames;
  return step->produced;
}

Result<std::size_t> Decoder::plain_step(std::span<std::byte> out) {
  std::size_t bytes = std::min(out.size(), end_ - begin_);
  std::copy_n(input().begin(), bytes, out.begin());
  begin_ += bytes;
  if (bytes == 0) {
    TRY_ASSIGN(bytes, source_->read(out));
  }
  if (bytes == 0) place_ = Place::at_end;
  return bytes;
}

Status Decoder::next_frame() {
  for (;;) {
    while (begin_ < end_ && in_[begin_] == std::byte{0}) ++begin_;
    if (end_ - begin_ >= k_magic_bytes) break;
    const std::size_t before = end_ - begin_;
    TRY(refill());
    if (end_ == before) break;  // the file ends here
  }
  if (begins_frame(coding_, input())) {
    place_ = Place::in_frame;
    return codec_->begin_frame();
  }
  if (begin_ != end_) note_ = "bytes behind the end of the compressed data were ignored";
  place_ = Place::at_end;
  return {};
}

}  // namespace nodestage
