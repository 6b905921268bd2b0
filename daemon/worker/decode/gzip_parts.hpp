// GzipParts: a gzip file as parts that several threads decode, although each byte may depend on the
// 32 KiB before it. After P. Kerbiriou and R. Chikhi, "Parallel decompression of gzip-compressed
// files and random access to DNA sequences", 2019, and M. Knespel and H. Brunst, "Rapidgzip:
// Parallel decompression and seeking in gzip files using cache prefetching", 2023.
//
//   maker: equal pieces of the file → threads: a DeflateChunk from each → consumer: joins them
//
// A chunk counts only if everything before it ended exactly where it begins. The consumer then puts
// in what the chunk could not know, and computes the checksum. What lies between chunks is decoded
// by the consumer, as by one thread: headers, trailers, the last blocks, chunks that were not found
// or too large, and everything that is damaged.
#pragma once

#include <atomic>
#include <deque>
#include <limits>
#include <memory>

#include "daemon/worker/decode/gzip_codec.hpp"
#include "daemon/worker/decode/ordered_parts.hpp"
#include "daemon/worker/gzip/deflate_chunk.hpp"

namespace nodestage {

class GzipPart;

struct GzipSizes {
  std::size_t chunk;            // compressed bytes of a part, at most
  std::size_t blocks_of_chunk;  // of the store, for what they become
  // Runs of bytes that a chunk does not know yet. With more, it is given up.
  std::size_t marks_of_chunk = SIZE_MAX;
  // With more decoded bytes for each compressed one, ISA-L is faster.
  double growth = std::numeric_limits<double>::infinity();
  // How far a part may look for the end of its last block.
  [[nodiscard]] std::size_t beyond() const { return std::max(chunk / 4, std::size_t{64} * 1024); }
};

class GzipParts final : public PartMaker {
 public:
  // `parts`: how many there are at a time, with that of the consumer. The store's input must hold a
  // chunk and what lies beyond it at a time.
  GzipParts(std::unique_ptr<DecodeStore> store, GzipSizes sizes, std::size_t parts);

  // By any thread.
  std::unique_ptr<Part> make() override;
  void stop() override;
  // Set when nothing is to be decoded any more.
  [[nodiscard]] const std::atomic<bool>& is_stopped() const { return is_stopped_; }
  [[nodiscard]] const GzipSizes& sizes() const { return sizes_; }

  // By the consumer.
  void settle(Part& part, OrderedParts& behind) override;
  [[nodiscard]] std::optional<Junk> junk() const override { return reader_.junk(); }
  void go_on(GzipPart& part);
  [[nodiscard]] std::uint64_t tried() const { return tried_; }    // chunks
  [[nodiscard]] std::uint64_t joined() const { return joined_; }  // of them, those that counted

 private:
  struct Point {
    std::uint64_t bit;  // of the file
    std::uint32_t crc;  // of the member's data before it
    std::uint64_t size;
  };

  static std::unique_ptr<Part> stopped_part(std::unique_ptr<GzipPart> part);
  Result<Slice> pull();
  bool join(GzipPart& part);
  void learn(bool is_too_large, std::size_t filled);
  void drop_before(std::uint64_t offset);
  void leave_chunks(GzipPart& part);
  void miss(GzipPart& part);
  void count_loss(const GzipPart& part);
  void decode(GzipPart& part);
  void end(GzipPart& part, const Status& fault);
  void pause(GzipPart& part);
  void remember(Bytes bytes);

  const std::unique_ptr<DecodeStore> store_;
  const GzipSizes sizes_;
  BufferPool pieces_;     // of the file
  bool is_made_ = false;  // the last part
  Status read_fault_;

  // Set by the consumer, read by the maker.
  std::atomic<std::size_t> chunk_;
  std::atomic<unsigned> parts_without_ = 0;  // that are made next and decoded by the consumer only
  std::atomic<unsigned> pauses_ = 0;         // how often that was set
  std::atomic<bool> is_stopped_ = false;

  std::deque<Slice> queue_;  // what was made, and is not in input_ yet
  std::uint64_t queued_at_ = 0;
  std::uint64_t pull_end_ = 0;  // where input_ pauses
  bool is_paused_ = false;
  bool has_all_ = false;
  bool is_over_ = false;
  Status source_fault_;
  CompressedInput input_;
  GzipCodec* codec_;  // the reader's
  FrameReader reader_;

  std::optional<Point> point_;    // between two chunks; else the reader decodes
  bool is_reader_there_ = false;  // at the point, too
  std::vector<std::byte> window_;
  std::uint64_t tried_ = 0;
  std::uint64_t joined_ = 0;
  unsigned losses_ = 0;  // in a row: chunks that were no gain
  unsigned pause_ = 0;   // parts without chunks, the last time
};

}  // namespace nodestage
