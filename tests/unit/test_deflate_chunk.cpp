#include <doctest/doctest.h>

#include "daemon/worker/decode/deflate_chunk.hpp"
#include "gzip_bytes.hpp"

using namespace nodestage;

namespace {

const std::atomic<bool> k_no_stop = false;

// A chunk of all of the data, with room for `room` bytes.
class WholeChunk {
 public:
  DeflateChunk chunk;
  bool is_decoded;

  explicit WholeChunk(const std::string& data, std::size_t room = std::size_t{1} << 20)
      : pool_(k_headroom + room, 1) {
    std::vector<Part::Block> blocks;
    blocks.push_back({pool_.take(), 0});
    is_decoded =
        chunk.decode(std::as_bytes(std::span(data)), 8 * data.size(), std::move(blocks), k_no_stop);
  }

 private:
  BufferPool pool_;
};

// Of the bits of what repeats this, each sixth begins a header that is right at first.
std::string hostile(std::size_t bytes) {
  constexpr std::string_view k_bits = "0010000100100000001";
  std::string data(bytes, '\0');
  for (std::size_t i = 0; i < 8 * bytes; ++i) {
    if (k_bits[i % k_bits.size()] == '1')
      data[i / 8] = static_cast<char>(data[i / 8] | (1 << i % 8));
  }
  return data;
}

}  // namespace

TEST_CASE("a chunk: the first block is found behind much that is none") {
  const std::string blocks = gzip_bytes::deflated(gzip_bytes::words(200'000), {"", 6, 2});
  const std::string noise = gzip_bytes::noise(1'000'000);
  const WholeChunk found(noise + blocks);
  CHECK(found.is_decoded);
  CHECK(found.chunk.begin().bit == 8 * noise.size());
  CHECK(found.chunk.headers() < 8'000);
}

TEST_CASE("a chunk: data that look like headers everywhere do not hold up the search") {
  const std::string blocks = gzip_bytes::deflated(gzip_bytes::words(200'000), {"", 6, 2});
  const std::string start = hostile(1'000'000);
  const WholeChunk found(start + blocks);
  CHECK_FALSE(found.is_decoded);
  CHECK(found.chunk.headers() < 20'000);
  // There are more of them.
  std::uint64_t headers = 1'000'000;
  CHECK_FALSE(find_block(std::as_bytes(std::span(start)), 0, 8 * start.size(), k_no_stop, headers));
  CHECK(headers == 0);
}
