#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

#include "daemon/worker/decode/decoder.hpp"
#include "daemon/worker/decode/gzip_parts.hpp"
#include "gzip_bytes.hpp"
#include "rounds.hpp"
#include "tests/unit/sizes.hpp"
#include "texts.hpp"

using namespace nodestage;
using gzip_bytes::k_packed;
using gzip_bytes::member;
using gzip_bytes::next_random;
using gzip_bytes::Packed;

namespace {

constexpr std::size_t k_chunk = 9'000;
constexpr std::size_t k_undefined = 512;

// Both ways to decode one file.
class TwoWays {
 public:
  Decoded one, many;

  TwoWays(DecodeRun& run, const std::string& packed, std::size_t chunk = k_chunk) {
    run.limits.threads = 1;
    one = run.decode_bytes(packed);
    run.limits.threads = 3;
    run.limits.gzip_chunk = chunk;
    many = run.decode("y");
  }
  // Before a fault, ISA-L may return a few bytes that it has not decoded.
  [[nodiscard]] bool are_alike() const {
    if (one.fault != many.fault || one.note != many.note) return false;
    if (one.fault.empty()) return one.data == many.data;
    const std::size_t least = std::min(one.data.size(), many.data.size());
    const std::size_t sure = least - std::min(least, k_undefined);
    return one.data.compare(0, sure, many.data, 0, sure) == 0 &&
           std::max(one.data.size(), many.data.size()) - least <= k_undefined;
  }
};

struct Joined {
  std::string data;
  std::string fault;
  std::uint64_t chunks;
  std::uint64_t size = 0;
  std::uint64_t tried = 0;
};

enum class Kept { data, nothing };
using Check = std::function<void(const Decoding& decoding, std::uint64_t decoded)>;

// `check`: after each slice.
Joined join(DecodeRun& run, const std::string& packed, const GzipSizes& sizes,
            std::size_t block = std::size_t{512} * 1024, Kept kept = Kept::data,
            const Check& check = {}) {
  write_file(run.scratch / "y", packed);
  Metered metered;
  auto source = must(Source::open(run.scratch / "y", metered.meter));
  auto blocks =
      std::make_unique<SourceBlocks>(source, std::vector<Slice>(), ReadAheadLimits{4096, 64, 2});
  REQUIRE(blocks->start());
  auto store = std::make_unique<DecodeStore>(DecodeFaults(source, Coding::gzip), std::move(blocks),
                                             4096 * 64, block, 60);
  auto parts = std::make_unique<GzipParts>(std::move(store), sizes, 7);
  const GzipParts& made = *parts;
  auto decoding = must(PartDecoding::start(std::move(parts), 3, 5));
  Joined joined{};
  for (;;) {
    const auto slice = decoding->next();
    if (!slice) joined.fault = slice.error().text();
    if (!slice || slice->empty()) break;
    joined.size += slice->size();
    if (check) check(*decoding, joined.size);
    if (kept == Kept::data) joined.data += DecodeRun::text(slice->bytes());
  }
  joined.chunks = made.joined();
  joined.tried = made.tried();
  return joined;
}

}  // namespace

TEST_CASE("gzip in chunks: every kind of data and of blocks is as one thread decodes it") {
  DecodeRun run;
  const std::string kinds[] = {sample(400'000), ::noise(300'000), gzip_bytes::words(900'000),
                               gzip_bytes::images(400'000),
                               sample(90'000) + std::string(3'000'000, '\0') + sample(200'000)};
  int number = 0;
  for (const std::string& data : kinds) {
    for (const Packed& packed : k_packed) {
      for (const std::size_t chunk :
           {std::size_t{3'001}, std::size_t{9'000}, std::size_t{40'000}}) {
        if (number++ % k_step != 0) continue;
        INFO(std::string(packed.name) << ", chunks of " << chunk);
        const TwoWays ways(run, member(data, packed), chunk);
        CHECK(ways.many.fault == "");
        CHECK((ways.many.data == data));
      }
    }
  }
}

TEST_CASE("gzip in chunks: they are found, and count") {
  if (!Inflater::can_begin_between()) return;  // a build with zlib
  DecodeRun run;
  struct Expected {
    Packed packed;
    std::string data;
    std::size_t least;
  };
  // Blocks of these sizes begin in nearly each of the chunks.
  const Expected all[] = {
      {{"images", 6, 4}, gzip_bytes::images(1'000'000), 60},
      {{"words", 6, 2}, gzip_bytes::words(3'000'000), 30},
      {{"noise, stored", 6, 1}, ::noise(600'000), 30},
      {{"flushed", 6, 8, Z_DEFAULT_STRATEGY, Z_SYNC_FLUSH, 4'000},
       gzip_bytes::words(3'000'000),
       30},
  };
  for (const Expected& expected : all) {
    CAPTURE(std::string(expected.packed.name));
    const std::string packed = member(expected.data, expected.packed);
    const Joined joined = join(run, packed, {10'000, 3});
    CHECK(joined.fault == "");
    CHECK((joined.data == expected.data));
    CHECK(joined.chunks >= expected.least);
  }
}

TEST_CASE("gzip in chunks: what becomes larger than a chunk's memory is decoded all the same") {
  DecodeRun run;
  const std::string data =
      gzip_bytes::words(1'500'000) + std::string(2'000'000, 'x') + gzip_bytes::images(300'000);
  for (const std::size_t block : {std::size_t{4'096}, std::size_t{40'960}}) {
    const Joined joined = join(run, member(data, {"", 6, 1}), {20'000, 2}, block);
    CHECK(joined.fault == "");
    CHECK((joined.data == data));
  }
}

TEST_CASE(
    "gzip in chunks: text after images is decoded by one thread, and images after it are not") {
  if (!Inflater::can_begin_between()) return;  // a build with zlib
  DecodeRun run;
  constexpr std::size_t k_small = 10'000;
  const GzipSizes sizes{k_small, 3, k_small / 16, 1.25};
  const std::string images = gzip_bytes::images(1'000'000);
  const std::string text = gzip_bytes::words(6'000'000);
  // Each small piece of the second one is compressed by itself, so that all bytes are known.
  const Packed all[] = {{"linked", 6, 2}, {"full flushes", 6, 2, Z_DEFAULT_STRATEGY, Z_FULL_FLUSH}};
  for (const Packed& packed : all) {
    CAPTURE(std::string(packed.name));
    const Joined only_images = join(run, member(images, packed), sizes);
    CHECK(only_images.tried >= 90);
    CHECK(only_images.chunks > 60);
    const std::string text_packed = member(text, packed);
    REQUIRE(text_packed.size() > 100 * k_small);
    const Joined only_text = join(run, text_packed, sizes);
    CHECK((only_text.data == text));
    CHECK(only_text.tried < text_packed.size() / k_small / 4);
    const Joined both = join(run, member(images + text, packed), sizes);
    CHECK((both.data == images + text));
    CHECK(both.tried < only_images.tried + text_packed.size() / k_small / 4);
    const std::string more = images + images + images + images;
    const Joined three = join(run, member(images + text + more, packed), sizes);
    CHECK((three.data == images + text + more));
    CHECK(three.chunks > only_images.chunks + 60);
  }
}

TEST_CASE("gzip in chunks: the position is behind what was returned, and not far") {
  DecodeRun run;
  // Stored, so that positions are known.
  const std::string data = ::noise(900'000);
  constexpr std::uint64_t k_file_bytes = 900'000 + 18 + 900'000 / 1'000;
  const GzipSizes sizes{20'000, 3};
  std::uint64_t last = 0;
  const auto check = [&](const Decoding& decoding, std::uint64_t decoded) {
    const std::uint64_t position = decoding.position();
    CHECK(position >= last);
    CHECK(position >= std::min<std::uint64_t>(decoded, data.size()));
    CHECK(position <= k_file_bytes);
    CHECK(position <= decoded + decoded / 1'000 + 512 + 2 * (sizes.chunk + sizes.beyond()));
    last = position;
  };
  const Joined joined =
      join(run, member(data, {"", 0, 3}), sizes, std::size_t{512} * 1024, Kept::data, check);
  CHECK((joined.data == data));
  CHECK((joined.chunks > 10 || !Inflater::can_begin_between()));
}

// Its size, modulo 2^32 as ISA-L and the trailer count it, is 10,100 when a chunk ends whose last
// block repeats what lies 20,000 bytes before.
TEST_CASE("gzip in chunks: a member of more than 4 GiB") {
  constexpr std::size_t k_piece = std::size_t{64} << 20;
  const std::string zeros(k_piece, '\0');
  const std::string packed_zeros = gzip_bytes::flushed(zeros);
  std::string packed("\x1f\x8b\x08\0\0\0\0\0\0\x03", 10);
  std::uint32_t crc = 0;
  std::uint64_t size = 0;
  const auto add = [&](std::string_view block, std::string_view data) {
    packed += block;
    crc = crc32_of(std::as_bytes(std::span(data)), crc);
    size += data.size();
  };
  const auto add_stored = [&add](const std::string& data, std::size_t each) {
    for (std::size_t at = 0; at < data.size(); at += each) {
      const std::string block = data.substr(at, each);
      add(std::string(1, '\0') + zip_bytes::little(block.size(), 2) +
              zip_bytes::little(0xffff - block.size(), 2) + block,
          block);
    }
  };
  // Chunks of noise are joined, so that the next ones are tried.
  const std::string noise = ::noise(8'000'000);
  const std::uint64_t zeros_end = (std::uint64_t{1} << 32) + 100 - noise.size();
  while (size + k_piece < zeros_end) add(packed_zeros, zeros);
  const std::string rest = zeros.substr(0, zeros_end - size);
  add(gzip_bytes::flushed(rest), rest);
  add_stored(noise, 30'000);
  // Empty blocks with fixed codes, ten bits each, for which nobody searches.
  for (int i = 0; i < 24'000; ++i) packed += std::string("\x02\x08\x20\x80\0", 5);
  add_stored(noise.substr(0, 10'000), 5'000);
  // The last block, with fixed codes: three bytes from a distance of 20,000, and the end.
  add(std::string("\x03\x9e\x0f\x07\0", 5), noise.substr(noise.size() - 10'000, 3));
  packed += zip_bytes::little(crc, 4) + zip_bytes::little(size & 0xffffffffU, 4);
  DecodeRun run;
  const Joined joined = join(run, packed, {100'000, 2}, std::size_t{512} * 1024, Kept::nothing);
  CHECK(joined.fault == "");
  CHECK(joined.size == size);
  CHECK(joined.chunks > 0);
}

TEST_CASE("gzip in chunks: members, empty ones, padding and what is behind") {
  DecodeRun run;
  const std::string data = gzip_bytes::images(60'000);
  const std::string none = member("", k_packed[1]);
  std::string all;
  std::string expected;
  for (int i = 0; i < 12; ++i) {
    const std::string some = gzip_bytes::words(static_cast<std::size_t>(3'000 * i));
    all += none + member(data, k_packed[static_cast<std::size_t>(i)]) + none +
           member(some, {"", 6, 1});
    expected += data + some;
  }
  for (const std::string& behind :
       {std::string(), std::string(100, '\0'), std::string(100'000, '\0') + none,
        std::string("junk"), std::string(30'000, '\0') + ::noise(90'000)}) {
    const TwoWays ways(run, all + behind);
    CHECK(ways.one.fault == "");
    CHECK((ways.one.data == expected));
    CHECK(ways.are_alike());
  }
  const Joined joined = join(run, all + all, {5'000, 3});
  CHECK((joined.data == expected + expected));
  CHECK((joined.chunks > 20 || !Inflater::can_begin_between()));
}

TEST_CASE("gzip in chunks: a chunk is joined right after the short header of a member") {
  DecodeRun run;
  const std::string data = gzip_bytes::images(100'000);
  const std::string packed = member(data, k_packed[1]);
  std::string all;
  std::string expected;
  for (int i = 0; i < 20; ++i) all += packed, expected += data;
  // Each piece of the file begins with such a header, of ten bytes.
  const Joined joined = join(run, all, {packed.size(), 3});
  CHECK((joined.data == expected));
  CHECK((joined.chunks == 19 || !Inflater::can_begin_between()));
}

TEST_CASE("gzip in chunks: what is wrong is said as by one thread") {
  DecodeRun run;
  const std::string data = gzip_bytes::images(200'000) + gzip_bytes::words(400'000);
  const std::string good = member(data, {"", 6, 2});
  const auto check = [&](const std::string& bad) {
    const TwoWays ways(run, bad);
    CHECK(ways.one.fault != "");
    CHECK(ways.many.fault == ways.one.fault);
    CHECK(ways.are_alike());
  };
  for (const std::size_t back : {1U, 4U, 5U, 8U}) {
    CAPTURE(back);
    std::string bad = good;
    bad[bad.size() - back] ^= 1;  // length, and checksum
    check(bad);
    check(good.substr(0, good.size() - back));
  }
  std::uint64_t state = 12345;
  for (int i = 0; i < rounds(60); ++i) {
    CAPTURE(i);
    check(good.substr(0, 40'000 + next_random(state) % (good.size() - 40'000)));
    std::string bad = good;
    bad[11 + next_random(state) % (good.size() - 11)] ^= static_cast<char>(1U << state % 8);
    const TwoWays ways(run, bad);
    CHECK(ways.many.fault != "");
    CHECK(ways.are_alike());
  }
}

TEST_CASE("gzip in chunks: blocks within the data are not taken for those of the stream") {
  DecodeRun run;
  // Members that are stored within a member: each of their blocks looks like one of the outer.
  const std::string inner = member(gzip_bytes::words(500'000), {"", 6, 1});
  for (const int level : {0, 1}) {
    const std::string outer = member(inner + inner, {"", level, 8});
    const TwoWays ways(run, outer);
    CHECK(ways.many.fault == "");
    CHECK((ways.many.data == inner + inner));
  }
}

TEST_CASE("gzip in chunks: a match from before the member's beginning is damage") {
  DecodeRun run;
  // The second member repeats what only the first one has.
  const std::string data = gzip_bytes::words(300'000);
  const std::string first = member(data, {"", 6, 1});
  std::string cut =
      gzip_bytes::deflated(data + data, {"", 6, 1, Z_DEFAULT_STRATEGY, Z_SYNC_FLUSH, data.size()});
  const std::string head =
      gzip_bytes::deflated(data, {"", 6, 1, Z_DEFAULT_STRATEGY, Z_SYNC_FLUSH, data.size() - 1});
  cut.erase(0, head.size() / 2);
  const TwoWays ways(run, first + member("", k_packed[0]).substr(0, 10) + cut);
  CHECK(ways.many.fault != "");
  CHECK(ways.are_alike());
}

TEST_CASE("gzip in chunks: neither small files nor text, and not with one thread") {
  if (!Inflater::can_begin_between()) return;  // a build with zlib
  DecodeRun run;
  const auto threads = [&](const DecoderLimits& limits) {
    Metered metered;
    auto source = must(Source::open(run.scratch / "y", metered.meter));
    auto decoder = must(Decoder::open(source, limits));
    REQUIRE(decoder.next());
    return decoder.threads();
  };
  const std::string data = gzip_bytes::images(5'000'000);
  write_file(run.scratch / "y", member(data, k_packed[1]));
  CHECK(threads({3, 128 * k_mib}) == 3);
  CHECK(threads({2, 128 * k_mib}) == 2);
  CHECK(threads({1, 128 * k_mib}) == 1);
  CHECK(threads({4, 32 * k_mib}) < 4);  // each takes some memory
  CHECK(threads({100, 128 * k_mib}) < 20);
  write_file(run.scratch / "y", member(data.substr(0, 3'000'000), k_packed[1]));
  CHECK(threads({3, 128 * k_mib}) == 1);
  // ISA-L decodes text faster.
  write_file(run.scratch / "y", member(gzip_bytes::words(20'000'000), k_packed[0]));
  REQUIRE(std::filesystem::file_size(run.scratch / "y") > 4 * k_mib);
  CHECK(threads({3, 128 * k_mib}) == 1);
  CHECK(threads({3, 128 * k_mib, 100'000}) == 3);
}
