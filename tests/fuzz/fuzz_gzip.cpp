// A gzip file, decoded by one thread and in small chunks by several: both return the same data, or
// find a fault. The first two bytes say how large the chunks are, and the blocks for what they
// become, so that small inputs have many chunks and some that become too large.
#include "daemon/worker/decode/decoder.hpp"
#include "daemon/worker/decode/gzip_parts.hpp"
#include "gzip_seen.hpp"

using namespace nodestage;

namespace {

constexpr unsigned k_threads = 2;
constexpr std::size_t k_depth = k_threads + 2;

GzipSeen by_one(const MemoryFile& file) {
  Reading reading;
  auto source = Source::open(file.path(), reading.meter);
  require(static_cast<bool>(source));
  auto decoding =
      start_decoding(DecoderInput::of(*source, {}), Coding::gzip, {1, std::size_t{32} << 20});
  require(static_cast<bool>(decoding));
  return seen_of(**decoding, source->size());
}

GzipSeen in_chunks(const MemoryFile& file, const GzipSizes& sizes, std::size_t block_bytes) {
  Reading reading;
  auto source = Source::open(file.path(), reading.meter);
  require(static_cast<bool>(source));
  const std::size_t blocks = (k_depth + 1) * sizes.blocks_of_chunk + 4;
  auto from =
      std::make_unique<SourceBlocks>(*source, std::vector<Slice>(), ReadAheadLimits{4096, 64, 2});
  require(static_cast<bool>(from->start()));
  auto store = std::make_unique<DecodeStore>(DecodeFaults(*source, Coding::gzip), std::move(from),
                                             4096 * 64, block_bytes, blocks);
  auto parts = std::make_unique<GzipParts>(std::move(store), sizes, k_depth + 2);
  auto decoding = PartDecoding::start(std::move(parts), k_threads, k_depth);
  require(static_cast<bool>(decoding));
  return seen_of(**decoding, source->size());
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2 || !Inflater::can_begin_between()) return 0;
  const MemoryFile file(text_of(data + 2, size - 2));
  const GzipSeen one = by_one(file);
  const GzipSeen many =
      in_chunks(file, {16U + 8U * data[0], 1U + data[1] % 3U}, 512U * (1U + data[1] / 3U));
  require_same(one, many);
  return 0;
}
