// A gzip file, decoded by one thread and in small chunks by several: both return the same data, or
// find a fault.
#include <optional>
#include <string_view>

#include "daemon/worker/decode/decoder.hpp"
#include "reading.hpp"

using namespace nodestage;

namespace {

constexpr std::size_t k_undefined = 512;

struct Seen {
  std::string data;
  std::string fault;
  std::optional<std::uint64_t> junk_at;
};

Seen decoded(const MemoryFile& file, const DecoderLimits& limits) {
  Reading reading;
  auto source = Source::open(file.path(), reading.meter);
  require(static_cast<bool>(source));
  auto decoder = Decoder::open(*source, limits);
  require(static_cast<bool>(decoder));
  if (decoder->coding() != Coding::gzip) return {};
  Seen seen;
  for (;;) {
    const auto block = decoder->next();
    if (!block) seen.fault = block.error().text();
    if (!block || block->empty() || seen.data.size() > k_most_bytes) break;
    seen.data.append(reinterpret_cast<const char*>(block->bytes().data()), block->size());
  }
  seen.data.resize(std::min(seen.data.size(), k_most_bytes));
  seen.junk_at = decoder->junk_at();
  return seen;
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  // The first byte: how large the chunks are.
  const MemoryFile file(text_of(data + 1, size - 1));
  constexpr std::size_t k_memory = std::size_t{32} << 20;
  const Seen one = decoded(file, {1, k_memory});
  const Seen many = decoded(file, {3, k_memory, 16U + 8U * data[0]});
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
