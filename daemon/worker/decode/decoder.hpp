// Decoder: a Source's bytes, decompressed when they are compressed, by threads of its own.
//
//   source → ReadAhead (8 threads) → [the coding's maker and parts (threads)] → next()
//
// clang-format off
//   coding  in parallel                            memory beside the blocks
//   plain   reading                                none
//   gzip    members that tell their size (bgzip)   0.1 MiB a thread
//   zstd    frames of at most a third of the       the window, and 0.3 MiB, a thread; a larger
//           memory, with a window of at most       window (at most 128 MiB) is one thread's
//           8 MiB
//   bzip2   blocks                                 4.7 MiB a thread
//   xz      blocks of known size, as the memory    dictionary, block and compressed block a thread;
//           allows                                 at least the dictionary (at most 128 MiB)
//   lz4     nothing                                8 MiB
// clang-format on
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/worker/decode/decode_faults.hpp"
#include "daemon/worker/decode/decoding.hpp"
#include "daemon/worker/read/source.hpp"

namespace nodestage {

// So many slices of different blocks may be held by whoever consumes them; with more, next() may
// wait for ever.
inline constexpr std::size_t k_decoder_blocks_held = 16;

struct DecoderLimits {
  unsigned threads = 2;  // that decode; those that read only wait
  // Of blocks that are read, worked and held, and of the decoders' own memory but for one large
  // window (above). Less than 32 MiB counts as 32 MiB; bzip2 takes 48 MiB at least.
  std::size_t memory = std::size_t{64} << 20;
};

// Several members, streams or frames in one file are one stream, as gzip(1) and its kin see it.
// Zero bytes behind the last one are padding; other bytes there are ignored, with a note.
//
// One thread's. Its end, at any moment, stops and joins its threads; only a read that hangs in the
// kernel is waited for.
class Decoder {
 public:
  // Recognises the coding by the first MiB. The source is borrowed. No thread runs yet.
  static Result<Decoder> open(Source& source, const DecoderLimits& limits = {});

  // The next block, of at most 4 MiB: a multiple of 512 bytes but at the end, where the last one
  // may be shorter; then empty. A fault comes after everything decoded before it was given, and
  // stays. The first call starts the threads.
  Result<Slice> next();

  // The first bytes of what next() will give: 64 KiB, or as many as there are before an end or a
  // fault. Only before the first next(); valid until then.
  Result<Bytes> peek();

  // To the end, so that a cut-off tail and the last checksum are noticed. Nothing for plain files.
  Status drain();

  // In the file: all that next() has given lies before it.
  [[nodiscard]] std::uint64_t position() const {
    return decoding_ != nullptr ? decoding_->position() : source_->position();
  }
  // Threads that decode, after the first next(); 1 also where a library has threads of its own.
  [[nodiscard]] unsigned threads() const { return decoding_ != nullptr ? decoding_->threads() : 1; }

  [[nodiscard]] Coding coding() const { return coding_; }
  [[nodiscard]] const std::string& note() const { return note_; }

  // The fault for a file that ends too early.
  [[nodiscard]] Error cut_off() const;
  // The fault for content that cannot be right.
  [[nodiscard]] Error damaged(std::string_view cause) const;

 private:
  Decoder(Source& source, const DecoderLimits& limits) : source_(&source), limits_(limits) {}
  Result<Slice> read_first();
  Result<Bytes> peek_decoded();
  [[nodiscard]] DecodeFaults faults() const { return {*source_, coding_}; }

  Source* source_;
  DecoderLimits limits_;
  Coding coding_ = Coding::plain;
  std::vector<Slice> first_;  // of the file, read to recognise it
  std::vector<std::byte> peeked_;
  std::unique_ptr<Decoding> decoding_;  // null before the first next()
  Status fault_;
  std::string note_;
};

}  // namespace nodestage
