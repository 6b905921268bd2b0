// Decoder: a Source's bytes, decompressed by its own threads if they are compressed.
//
//   source → ReadAhead (8 threads) → [the coding's maker and parts (threads)] → next()
//
// clang-format off
//   coding  in parallel                            memory in addition to the blocks
//   plain   reading                                none
//   gzip    members with a size field (bgzip)      0.1 MiB per thread
//           other members, in pieces of up to      1.5 MiB and 3 blocks per piece, and 0.5 MiB per
//           1 MiB, if the file is large            thread
//   zstd    frames of at most a third of the       the window and 0.3 MiB per thread; a larger
//           memory, with a window up to 8 MiB      window (at most 128 MiB) for one thread
//   bzip2   blocks                                 4.7 MiB per thread
//   xz      blocks of known size, as the memory    dictionary, block, and compressed block per
//           allows                                 thread; at least the dictionary (up to 128 MiB)
//   lz4     nothing                                8 MiB
//   lzma,   nothing                                the dictionary (up to 128 MiB)
//   lzip
// clang-format on
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "daemon/worker/decode/ordered_parts.hpp"
#include "daemon/worker/read/source.hpp"

namespace nodestage {

// How many slices of different blocks consumers may hold. With more, next() may wait forever.
inline constexpr std::size_t k_decoder_blocks_held = 16;

struct DecoderLimits {
  unsigned threads = 2;  // that decode; reading threads only wait
  // For blocks that are read, decoded, and held, and for the decoders' own memory except one large
  // window (above). Less than 32 MiB counts as 32 MiB; bzip2 takes at least 48 MiB.
  std::size_t memory = std::size_t{64} << 20;
  // Of one gzip stream that several threads decode: the compressed bytes that one of them takes,
  // for tests. 0: as the memory allows, and no file of less than four times as much is decoded so.
  std::size_t gzip_chunk = 0;
};

// Several members, streams, or frames in one file are one stream, as in gzip(1) and similar
// programs. Zero bytes after the last one are padding; other bytes there are ignored (junk).
//
// Used by one thread. The destructor may run at any moment; it stops and joins the threads, and
// waits only for a read that hangs in the kernel.
class Decoder {
 public:
  // Recognizes the coding from the first MiB. The source is borrowed. Starts no thread yet.
  static Result<Decoder> open(Source& source, const DecoderLimits& limits = {});

  // Of bytes that come from elsewhere: of an archive in an archive. `from` decodes them.
  struct Stream {
    std::string path;    // for faults, as are size and coding
    std::uint64_t size;  // of the encoded bytes
    Coding coding;
    const Meter* meter;  // borrowed
  };
  Decoder(Stream about, std::unique_ptr<Decoding> from)
      : meter_(about.meter),
        path_(std::move(about.path)),
        size_(about.size),
        coding_(about.coding),
        decoding_(std::move(from)) {}

  // The next block, of at most 4 MiB. Its size is a multiple of 512 bytes, except for the last one.
  // Empty at the end. A fault comes after everything that was decoded before it, and is repeated.
  // The first call starts the threads.
  Result<Slice> next();

  // The first bytes of what next() will return: 64 KiB, or as many as there are before an end or a
  // fault. Only before the first next(); valid until then. Of a Stream: none.
  Result<Bytes> peek();

  // Reads to the end, so that a cut-off tail and a wrong last checksum are noticed. Does nothing
  // for plain files.
  Status drain();

  // The position in the file before which everything lies that next() has returned.
  [[nodiscard]] std::uint64_t position() const {
    return decoding_ != nullptr ? decoding_->position() : source_->position();
  }
  // Threads that decode, after the first next(); 1 for a library that has threads of its own.
  [[nodiscard]] unsigned threads() const { return decoding_ != nullptr ? decoding_->threads() : 1; }

  [[nodiscard]] Coding coding() const { return coding_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  // At the end.
  [[nodiscard]] const std::optional<Junk>& junk() const { return junk_; }

  // The fault for a file that ends too early.
  [[nodiscard]] Error cut_off() const;
  // The fault for invalid content.
  [[nodiscard]] Error damaged(std::string_view cause) const;

 private:
  Decoder(Source& source, const DecoderLimits& limits)
      : source_(&source),
        meter_(&source.meter()),
        path_(source.path()),
        size_(source.size()),
        limits_(limits) {}
  Result<Slice> read_first();
  Status start();
  Result<Bytes> peek_decoded();
  [[nodiscard]] DecodeFaults faults() const { return {path_, size_, coding_}; }

  Source* source_ = nullptr;  // null: a stream, which is decoded from the start on
  const Meter* meter_;
  std::string path_;
  std::uint64_t size_;
  DecoderLimits limits_;
  Coding coding_ = Coding::plain;
  std::vector<Slice> first_;  // of the file, read to recognize the coding
  std::vector<std::byte> peeked_;
  std::unique_ptr<Decoding> decoding_;  // null before the first next()
  Status fault_;
  std::optional<Junk> junk_;
};

// Chooses how a source is decoded, and how much memory each stage gets.

// PartDecoding: the parts of OrderedParts as blocks of round sizes.
class PartDecoding final : public Decoding {
 public:
  // Depth as in OrderedParts. A fault: no thread could be started.
  static Result<std::unique_ptr<Decoding>> start(std::unique_ptr<PartMaker> maker, unsigned threads,
                                                 std::size_t depth);

  Result<Slice> next() override;
  [[nodiscard]] std::uint64_t position() const override { return position_; }
  [[nodiscard]] unsigned threads() const override { return threads_; }
  [[nodiscard]] std::optional<Junk> junk() const override { return maker_->junk(); }

 private:
  PartDecoding(std::unique_ptr<PartMaker> maker, unsigned threads, std::size_t depth)
      : maker_(std::move(maker)), threads_(threads), parts_(*maker_, depth) {}
  Result<Slice> next_slice();
  Result<std::optional<Part::Block>> next_block();
  Slice rounded(Part::Block block);
  Slice last();

  static constexpr std::size_t k_round = 512;
  static_assert(k_round <= k_headroom);

  const std::unique_ptr<PartMaker> maker_;
  const unsigned threads_;
  OrderedParts parts_;
  std::unique_ptr<Part> part_;
  std::size_t taken_ = 0;  // of its blocks
  std::uint64_t position_ = 0;
  std::array<std::byte, k_round> carried_{};  // the end of the data, not a round size yet
  std::size_t carried_bytes_ = 0;
  Status fault_;
  bool has_ended_ = false;
};

// A file, or a member of an archive.
struct DecoderInput {
  std::string path;          // for faults
  std::uint64_t size;        // of the encoded bytes
  std::vector<Slice> first;  // as far as it was read
  // All of it, which begins with `first`; nothing is started yet.
  std::function<std::unique_ptr<InputBlocks>(std::vector<Slice> first, const ReadAheadLimits&)>
      blocks;

  // `first`: the source's blocks up to its position(). The source is borrowed.
  static DecoderInput of(const Source& source, std::vector<Slice> first);
};

// A fault: no thread could be started.
Result<std::unique_ptr<Decoding>> start_decoding(DecoderInput input, Coding coding,
                                                 const DecoderLimits& limits);

}  // namespace nodestage
