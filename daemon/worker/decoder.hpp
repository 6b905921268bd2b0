// Decoder: a Source's bytes, decompressed when they are compressed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/worker/buffer.hpp"
#include "daemon/worker/source.hpp"

namespace nodestage {

// So many slices of different blocks may be held at once by whoever consumes.
inline constexpr std::size_t k_decoder_blocks_held = 16;

// Several members, streams or frames in one file are one stream, as gzip(1) and its kin see it.
// Zero bytes behind the last one are padding; other bytes there are ignored, with a note.
class Decoder {
 public:
  // Recognises the coding. The source is borrowed.
  static Result<Decoder> open(Source& source);

  // The next block: a multiple of 512 bytes but at the end, where the last one may be shorter; then
  // empty. A fault comes after everything decoded before it was given.
  Result<Slice> next();

  // The first block, which next() will give all the same. Only before the first next().
  Result<Bytes> peek();

  // To the end, so that a cut-off tail and the last checksum are noticed. Nothing for plain files.
  Status drain();

  [[nodiscard]] Coding coding() const { return coding_; }
  [[nodiscard]] const std::string& note() const { return note_; }

  // The fault for a file that ends too early.
  [[nodiscard]] Error cut_off() const;
  // The fault for content that cannot be right.
  [[nodiscard]] Error damaged(std::string_view cause) const;

 private:
  explicit Decoder(Source& source);
  Status refill();
  Result<std::size_t> fill(std::span<std::byte> out);
  Result<std::size_t> step(std::span<std::byte> out);
  Result<std::size_t> plain_step(std::span<std::byte> out);
  Status next_frame();
  [[nodiscard]] std::string how_to_test() const;
  [[nodiscard]] Bytes input() const { return Bytes(in_).subspan(begin_, end_ - begin_); }

  Source* source_;
  Coding coding_ = Coding::plain;
  std::unique_ptr<Codec> codec_;
  std::vector<std::byte> in_;
  std::size_t begin_ = 0;  // of what is not yet decoded
  std::size_t end_ = 0;
  BufferPool out_;
  Slice peeked_;
  enum class Place { between_frames, in_frame, at_end } place_ = Place::between_frames;
  Status late_fault_;  // to be given at the next call
  std::string note_;
};

}  // namespace nodestage
