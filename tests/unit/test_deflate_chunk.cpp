#include <doctest/doctest.h>

#include "daemon/worker/decode/ordered_parts.hpp"
#include "daemon/worker/gzip/deflate_chunk.hpp"
#include "gzip_bytes.hpp"

using namespace nodestage;

namespace {

const std::atomic<bool> k_no_stop = false;

// A chunk of all of the data, with room for `room` bytes.
class WholeChunk {
 public:
  DeflateChunk chunk;
  bool is_decoded;

  explicit WholeChunk(const std::string& data, std::size_t most_marks = SIZE_MAX)
      : pool_(k_headroom + k_room, 1) {
    std::vector<Part::Block> blocks;
    blocks.push_back({pool_.take(), 0});
    is_decoded = chunk.decode(std::as_bytes(std::span(data)), 8 * data.size(), std::move(blocks),
                              most_marks, k_no_stop);
  }

 private:
  static constexpr std::size_t k_room = std::size_t{4} << 20;
  BufferPool pool_;
};

// From about the middle of a stream on.
std::string half_of(const std::string& data, const gzip_bytes::Packed& packed) {
  const std::string all = gzip_bytes::deflated(data, packed);
  return all.substr(all.size() / 2);
}

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
  const std::string noise = ::noise(1'000'000);
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

TEST_CASE(
    "a chunk: what hardly compresses has few bytes that are not known, and text is given up") {
  const WholeChunk images(half_of(gzip_bytes::images(2'000'000), {}), 2'000);
  CHECK(images.is_decoded);
  CHECK(images.chunk.filled() > 900'000);
  CHECK(images.chunk.marks() > 40);  // in the heads
  CHECK(images.chunk.marks() < 1'000);
  const std::string words = half_of(gzip_bytes::words(2'000'000), {});
  const WholeChunk text(words, 10'000);
  CHECK_FALSE(text.is_decoded);
  const WholeChunk unlimited(words);
  CHECK(unlimited.is_decoded);
  CHECK(unlimited.chunk.marks() > 10'000);
}

TEST_CASE("marks: what repeats unknown bytes is unknown, also if it repeats itself") {
  constexpr std::uint32_t k_window = 32'768;
  DeflateMarks marks;
  marks.begin(k_window, 1'000);
  // What each byte is: one of the window, or known.
  constexpr std::uint32_t k_known = k_window;
  std::vector<std::uint32_t> bytes(k_window);
  for (std::uint32_t i = 0; i < k_window; ++i) bytes[i] = i;
  std::uint64_t state = 42;
  for (int i = 0; i < 200; ++i) {
    const auto known = static_cast<std::size_t>(gzip_bytes::next_random(state) % 50);
    bytes.insert(bytes.end(), known, k_known);
    const auto far = static_cast<std::uint32_t>(gzip_bytes::next_random(state) % k_window);
    const std::uint32_t distance = 1 + (i % 2 == 0 ? far : i % 4 == 1 ? far % 300 : 0);
    const auto length = static_cast<std::uint32_t>(3 + gzip_bytes::next_random(state) % 256);
    marks.repeat(bytes.size(), distance, length);
    for (std::uint32_t k = 0; k < length; ++k) bytes.push_back(bytes[bytes.size() - distance]);
  }
  REQUIRE_FALSE(marks.is_full());
  std::vector<std::uint32_t> marked(bytes.size(), k_known);
  std::uint32_t last = 0;
  for (const DeflateMarks::Run& run : marks.runs()) {
    CHECK(run.at >= last);
    last = run.end();
    for (std::uint32_t k = 0; k < run.length; ++k)
      marked[run.at + k] = run.from + (run.is_one ? 0 : k);
  }
  CHECK((marked == bytes));
}
