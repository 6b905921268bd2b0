#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "daemon/worker/decode/ordered_parts.hpp"
#include "daemon/worker/gzip/deflate_chunk.hpp"
#include "daemon/worker/gzip/inflater.hpp"
#include "gzip_bytes.hpp"
#include "zip_bytes.hpp"

using namespace nodestage;
using State = Inflater::State;
using zip_bytes::deflated;

namespace {

Bytes bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string some_text() {
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += std::to_string(i * i % 977) + ' ';
  return text;
}

// Deflate data and a gzip trailer of these numbers.
std::string with_trailer(const std::string& text, std::uint32_t crc, std::size_t size) {
  return deflated(text) + zip_bytes::little(crc, 4) + zip_bytes::little(size, 4);
}

struct Run {
  State state;
  std::string text;
  std::size_t input_left;
};

// Gives the input in pieces.
Run run(Inflater::Trailer trailer, const std::string& input, std::size_t piece, std::size_t room) {
  Inflater inflater;
  inflater.begin(trailer);
  Run all{State::open, "", 0};
  std::vector<std::byte> out(room);
  for (std::size_t at = 0; at < input.size() && all.state == State::open; at += piece) {
    const std::size_t count = std::min(piece, input.size() - at);
    inflater.give(bytes_of(input).subspan(at, count));
    do {
      inflater.set_room(out);
      all.state = inflater.run();
      all.text.append(reinterpret_cast<const char*>(out.data()), room - inflater.room_left());
    } while (all.state == State::open && inflater.room_left() == 0);
    all.input_left = inflater.input_left() + input.size() - at - count;
  }
  return all;
}

struct Whole {
  State state;
  std::size_t input_left;
  std::size_t room_left;
};

Whole run_whole(Inflater::Trailer trailer, const std::string& input, std::size_t room) {
  Inflater inflater;
  inflater.begin(trailer);
  std::vector<std::byte> out(room + 1);
  inflater.give(bytes_of(input));
  inflater.set_room(std::span(out).first(room));
  const State state = inflater.run_whole();
  return {state, inflater.input_left(), inflater.room_left()};
}

}  // namespace

TEST_CASE("inflater: pieces of any size, and what follows the data is left") {
  const std::string text = some_text();
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{1} << 20}) {
    CAPTURE(piece);
    const Run raw = run(Inflater::Trailer::none, deflated(text) + "behind", piece, 1000);
    CHECK(raw.state == State::ended);
    CHECK(raw.text == text);
    CHECK(raw.input_left == 6);
    const std::string good = with_trailer(text, zip_bytes::crc32(text), text.size());
    const Run gzip = run(Inflater::Trailer::gzip, good + "behind", piece, 1000);
    CHECK(gzip.state == State::ended);
    CHECK(gzip.text == text);
    CHECK(gzip.input_left == 6);
  }
}

TEST_CASE("inflater: a wrong trailer is a wrong checksum, other bytes are damaged data") {
  const std::string text = some_text();
  const std::uint32_t crc = zip_bytes::crc32(text);
  const auto state_of = [](const std::string& input) {
    return run(Inflater::Trailer::gzip, input, 100, 1000).state;
  };
  CHECK(state_of(with_trailer(text, crc ^ 1, text.size())) == State::wrong_checksum);
  CHECK(state_of(with_trailer(text, crc, text.size() + 1)) == State::wrong_checksum);
  CHECK(state_of("\xff\xff\xff\xff") == State::damaged);
  CHECK(run(Inflater::Trailer::none, "\xff\xff\xff\xff", 100, 1000).state == State::damaged);
  CHECK(state_of(deflated(text)) == State::open);
}

TEST_CASE("inflater: the whole at once") {
  const std::string text = some_text();
  const std::string packed = deflated(text);
  const auto whole = [&](const std::string& input, std::size_t room) {
    return run_whole(Inflater::Trailer::none, input, room);
  };
  const Whole good = whole(packed, text.size());
  CHECK(good.state == State::ended);
  CHECK(good.input_left == 0);
  CHECK(good.room_left == 0);
  CHECK(whole(packed + "behind", text.size()).input_left == 6);
  CHECK(whole(packed, text.size() + 3).room_left == 3);
  CHECK(whole(packed, text.size() - 1).state == State::no_room);
  CHECK(whole(packed.substr(0, packed.size() / 2), text.size()).state == State::no_input);
  CHECK(whole("\xff\xff\xff\xff", 100).state == State::damaged);
  CHECK(whole(deflated(""), 0).state == State::ended);
  const std::string wrong = with_trailer(text, 0, text.size());
  CHECK(run_whole(Inflater::Trailer::gzip, wrong, text.size()).state == State::wrong_checksum);
}

TEST_CASE("inflater: one is used again after each end, also after a fault") {
  Inflater inflater;
  const std::string text = some_text();
  const std::string packed = deflated(text);
  for (const bool damaged : {false, true, false}) {
    inflater.begin(Inflater::Trailer::none);
    std::vector<std::byte> out(text.size());
    const std::string input = damaged ? "\xff\xff" : packed;
    inflater.give(bytes_of(input));
    inflater.set_room(out);
    CHECK(inflater.run_whole() == (damaged ? State::damaged : State::ended));
  }
}

TEST_CASE("inflater: the CRC-32 is that of gzip and zip, in parts as well") {
  CHECK(crc32_of(bytes_of("123456789")) == 0xcbf43926U);
  CHECK(crc32_of(bytes_of("6789"), crc32_of(bytes_of("12345"))) == 0xcbf43926U);
  CHECK(crc32_of({}) == 0);
  CHECK(crc32_of({}, 12) == 12);
}

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
