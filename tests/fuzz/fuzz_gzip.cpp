// A gzip file, decoded by one thread and in small chunks by several: both return the same data, or
// find a fault. The first two bytes say how large the chunks are, and the blocks for what they
// become, so that small inputs have many chunks and some that become too large.
#include <optional>
#include <string_view>

#include "daemon/worker/decode/gzip_parts.hpp"
#include "daemon/worker/decode/part_decoding.hpp"
#include "daemon/worker/decode/start_decoding.hpp"
#include "reading.hpp"

using namespace nodestage;

namespace {

constexpr std::size_t k_undefined = 512;
constexpr unsigned k_threads = 2;
constexpr std::size_t k_depth = k_threads + 2;

struct Seen {
  std::string data;
  std::string fault;
  std::optional<std::uint64_t> junk_at;
};

Seen decoded(Decoding& decoding, std::uint64_t file_bytes) {
  Seen seen;
  for (;;) {
    const auto block = decoding.next();
    if (!block) seen.fault = block.error().text();
    if (!block || block->empty() || seen.data.size() > k_most_bytes) break;
    seen.data.append(reinterpret_cast<const char*>(block->bytes().data()), block->size());
    require(decoding.position() <= file_bytes);
  }
  seen.data.resize(std::min(seen.data.size(), k_most_bytes));
  seen.junk_at = decoding.junk_at();
  return seen;
}

Seen by_one(const MemoryFile& file) {
  Reading reading;
  auto source = Source::open(file.path(), reading.meter);
  require(static_cast<bool>(source));
  auto decoding = start_decoding(*source, {}, Coding::gzip, {1, std::size_t{32} << 20}, nullptr);
  require(static_cast<bool>(decoding));
  return decoded(**decoding, source->size());
}

Seen in_chunks(const MemoryFile& file, const GzipSizes& sizes, std::size_t block_bytes) {
  Reading reading;
  auto source = Source::open(file.path(), reading.meter);
  require(static_cast<bool>(source));
  const std::size_t blocks = (k_depth + 1) * sizes.blocks_of_chunk + 4;
  auto store = std::make_unique<DecodeStore>(*source, std::vector<Slice>(), Coding::gzip,
                                             ReadAheadLimits{4096, 64, 2}, block_bytes, blocks);
  require(static_cast<bool>(store->blocks.start()));
  auto parts = std::make_unique<GzipParts>(std::move(store), sizes, k_depth + 2);
  auto decoding = PartDecoding::start(std::move(parts), k_threads, k_depth);
  require(static_cast<bool>(decoding));
  return decoded(**decoding, source->size());
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2 || !Inflater::can_begin_between()) return 0;
  const MemoryFile file(text_of(data + 2, size - 2));
  const Seen one = by_one(file);
  const Seen many =
      in_chunks(file, {16U + 8U * data[0], 1U + data[1] % 3U}, 512U * (1U + data[1] / 3U));
  std::size_t least = std::min(one.data.size(), many.data.size());
  // Before a fault, ISA-L may return a few bytes that it has not decoded.
  if (!one.fault.empty() || !many.fault.empty()) least -= std::min(least, k_undefined);
  require(std::string_view(one.data).substr(0, least) ==
          std::string_view(many.data).substr(0, least));
  if (one.data.size() == k_most_bytes || many.data.size() == k_most_bytes) return 0;
  require(one.fault.empty() == many.fault.empty());
  require(!one.fault.empty() || (one.data == many.data && one.junk_at == many.junk_at));
  return 0;
}
