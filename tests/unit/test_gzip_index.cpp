#include <doctest/doctest.h>
#include <sys/stat.h>

#include "daemon/worker/decode/gzip_indexer.hpp"
#include "gzip_bytes.hpp"
#include "rounds.hpp"
#include "texts.hpp"

using namespace nodestage;
using gzip_bytes::k_packed;
using gzip_bytes::member;
using gzip_bytes::next_random;
using gzip_bytes::Packed;

namespace {

constexpr std::size_t k_spacing = k_least_indexed_output;

struct Seen {
  std::string data;
  std::string fault;
  std::string note;  // of the index, or why there is none
  unsigned threads = 0;
};

// A gzip file and the index beside it.
class Indexed {
 public:
  Indexed(DecodeRun& run, const std::string& packed) : run_(run), packed_(packed) {
    write_file(path(), packed);
  }
  [[nodiscard]] std::string path() const { return run_.scratch / "y"; }
  [[nodiscard]] std::string index_path() const { return path() + ".nodestage-index"; }

  // How many places it has.
  std::uint64_t make_index(std::size_t spacing = k_spacing) {
    Meter meter(rate_, run_.stop);
    const auto source = Source::open(path(), meter);
    REQUIRE(source);
    GzipIndexer indexer(*source, spacing);
    index = "";
    fault = "";
    const Status made = indexer.run([this](std::string_view text) {
      index += text;
      return Status();
    });
    if (!made) fault = made.error().text();
    write_file(index_path(), index);
    return indexer.places();
  }

  Seen decode(unsigned threads, bool by_index = true) {
    Meter meter(rate_, run_.stop);
    auto source = Source::open(path(), meter);
    REQUIRE(source);
    auto decoder = Decoder::open(*source, {threads, std::size_t{64} << 20});
    REQUIRE(decoder);
    Seen seen;
    if (by_index) {
      auto beside = GzipIndex::beside(*source);
      seen.note = beside.note;
      decoder->use(std::move(beside.index));
    }
    for (;;) {
      const auto block = decoder->next();
      if (!block) seen.fault = block.error().text();
      if (!block || block->empty()) break;
      seen.data += DecodeRun::text(block->bytes());
    }
    seen.threads = decoder->threads();
    if (by_index) seen.note += decoder->index_note();
    return seen;
  }

  std::string index;
  std::string fault;

 private:
  DecodeRun& run_;
  const std::string packed_;
  RateLimit rate_{-1};
};

// The places of an index, so that a test can change them.
std::vector<GzipPlace> places_of(const std::string& gzip, const std::string& data) {
  std::vector<GzipPlace> places;
  auto blocks = std::make_unique<DeflateBlocks<Deflate>>();
  blocks->begin();
  Bytes in = std::as_bytes(std::span(gzip)).subspan(10);
  std::uint64_t size = 0;
  for (bool has_more = true; has_more;) {
    const auto state = blocks->run(in);
    size += blocks->fresh().size();
    blocks->drop(blocks->fresh().size());
    has_more = state != DeflateBlocks<Deflate>::State::end;
    const std::uint64_t bit = 8 * (gzip.size() - in.size()) - blocks->bits_held();
    const std::uint64_t last = places.empty() ? 0 : places.back().data;
    if (has_more && state == DeflateBlocks<Deflate>::State::block && size >= last + 2 * k_spacing) {
      const auto window =
          std::as_bytes(std::span(data)).subspan(size - k_index_window, k_index_window);
      places.push_back({bit, size, 0, {window.begin(), window.end()}});
    }
  }
  return places;
}

std::string index_of(const std::string& path, const std::vector<GzipPlace>& places) {
  RateLimit rate(-1);
  const std::atomic<bool> stop = false;
  Meter meter(rate, stop);
  const auto source = Source::open(path, meter);
  REQUIRE(source);
  const auto head = index_head_of(*source);
  REQUIRE(head);
  std::string text = encode_index_head(*head);
  for (const GzipPlace& place : places) {
    const auto encoded = encode_place(place);
    REQUIRE(encoded);
    text += *encoded;
  }
  return text + *encode_place({});
}

}  // namespace

TEST_CASE("gzip index: its bytes") {
  const std::string head = encode_index_head({0x0102, -2, 0x0a0b0c});
  CHECK(head == std::string("nodestage-index\n"
                            "\x01\0\0\0\x01\0\0\0"
                            "\x02\x01\0\0\0\0\0\0"
                            "\xfe\xff\xff\xff\xff\xff\xff\xff"
                            "\x0c\x0b\x0a\0\0\0\0\0",
                            48) +
                    zip_bytes::little(crc32_of(std::as_bytes(std::span(head)).first(48)), 4));
  GzipPlace place{0x1112, 0x2122, 0x31, std::vector<std::byte>(k_index_window)};
  const std::string text = *encode_place(place);
  CHECK(text.substr(0, 20) ==
        std::string("\x12\x11\0\0\0\0\0\0\x22\x21\0\0\0\0\0\0\x31\0\0\0", 20));
  CHECK(text.substr(20, 4) == zip_bytes::little(text.size() - 28, 4));
  CHECK(text.substr(24, 4) == "\x28\xb5\x2f\xfd");
  const std::string end = *encode_place({});
  CHECK(end == std::string(24, '\0') +
                   zip_bytes::little(crc32_of(std::as_bytes(std::span(end)).first(24)), 4));
}

TEST_CASE("gzip index: every kind of data and of blocks is as one thread decodes it") {
  DecodeRun run;
  const std::string kinds[] = {sample(700'000), gzip_bytes::noise(500'000),
                               gzip_bytes::words(900'000), gzip_bytes::images(800'000),
                               sample(90'000) + std::string(6'000'000, '\0') + sample(200'000)};
  int number = 0;
  for (const std::string& data : kinds) {
    for (const Packed& packed : k_packed) {
      if (number++ % k_step != 0) continue;
      INFO(std::string(packed.name));
      Indexed file(run, member(data, packed));
      const std::uint64_t places = file.make_index();
      CHECK(file.fault == "");
      const Seen seen = file.decode(3);
      CHECK(seen.fault == "");
      CHECK(seen.note == "");
      CHECK((seen.data == data));
      if (packed.memory < 5 && packed.strategy == Z_DEFAULT_STRATEGY) CHECK(places >= 3);
    }
  }
}

TEST_CASE("gzip index: two threads decode by it, one and its missing do not need it") {
  if (!Inflater::can_begin_between()) return;  // a build with zlib
  DecodeRun run;
  const std::string data = gzip_bytes::words(3'000'000);
  Indexed file(run, member(data, {"", 6, 4}));
  CHECK(file.make_index() > 50);
  CHECK(file.decode(2).threads == 2);
  CHECK(file.decode(2, false).threads == 1);
  CHECK((file.decode(1).data == data));
  CHECK(::unlink(file.index_path().c_str()) == 0);
  const Seen without = file.decode(2);
  CHECK(without.threads == 1);
  CHECK(without.note == "");
}

TEST_CASE("gzip index: several members, zeros and other bytes after them") {
  DecodeRun run;
  const std::string one = gzip_bytes::words(400'000);
  const std::string two = gzip_bytes::images(500'000);
  const Packed packed{"", 6, 3};
  const std::string zeros(5'000, '\0');
  Indexed file(run, member(one, packed) + member("small", packed) + zeros + member(two, packed) +
                        member("", packed) + zeros + "no gzip");
  CHECK(file.make_index() > 10);
  CHECK(file.fault == "");
  const Seen seen = file.decode(3);
  CHECK(seen.fault == "");
  CHECK(seen.note == "");
  CHECK((seen.data == one + "small" + two));
}

TEST_CASE("gzip index: none is made of a file that is damaged or cut off") {
  DecodeRun run;
  const std::string good = member(gzip_bytes::words(300'000), {"", 6, 3});
  for (const std::size_t size : {std::size_t{5}, std::size_t{40'000}, good.size() - 3}) {
    Indexed file(run, good.substr(0, size));
    file.make_index();
    CHECK(has(file.fault, "cut off after"));
  }
  for (const std::size_t from_end : {std::size_t{2}, std::size_t{7}, good.size() / 2}) {
    std::string bad = good;
    bad[bad.size() - from_end] = static_cast<char>(bad[bad.size() - from_end] ^ 0x10);
    Indexed file(run, bad);
    file.make_index();
    CHECK(has(file.fault, "damaged at"));
  }
}

TEST_CASE(
    "gzip index: one of another file, of another release, or damaged is ignored with a note") {
  DecodeRun run;
  const std::string data = gzip_bytes::images(600'000);
  const std::string packed = member(data, {"", 6, 3});
  const auto note_with = [&](Indexed& file, const std::string& index) {
    write_file(file.index_path(), index);
    const Seen seen = file.decode(3);
    CHECK(seen.fault == "");
    CHECK((seen.data == data));
    return seen.note;
  };
  Indexed file(run, packed);
  file.make_index();
  const std::string right = file.index;
  CHECK(note_with(file, right) == "");
  CHECK(note_with(file, "") ==
        "its index is ignored: it is damaged (make it anew: nodestage pack "
        "--index " +
            file.path() + ")");
  CHECK(has(note_with(file, "nodestage-index\n"), "it is damaged"));
  CHECK(has(note_with(file, std::string(1'000'000, 'x')), "it is damaged"));
  std::string newer = right.substr(0, 16) + "\x02" + right.substr(17, 31);
  newer += zip_bytes::little(crc32_of(std::as_bytes(std::span(newer))), 4);
  CHECK(has(note_with(file, newer + right.substr(52)), "another release made it"));

  const timespec times[] = {{}, {1'600'000'000, 0}};
  REQUIRE(::utimensat(AT_FDCWD, file.path().c_str(), times, 0) == 0);
  CHECK(has(note_with(file, right), "it was made for another file"));
  file.make_index();
  const std::string dated = file.index;
  std::string longer = packed + std::string(512, '\0');
  write_file(file.path(), longer);
  REQUIRE(::utimensat(AT_FDCWD, file.path().c_str(), times, 0) == 0);
  CHECK(has(note_with(file, dated), "it was made for another file"));
  write_file(file.path(), member(data, {"", 5, 3}).substr(0, packed.size()));
  REQUIRE(::utimensat(AT_FDCWD, file.path().c_str(), times, 0) == 0);
  write_file(file.index_path(), dated);
  CHECK(has(file.decode(3).note, "it was made for another file"));
}

TEST_CASE("gzip index: what is no file is ignored with a note") {
  DecodeRun run;
  Indexed file(run, member(gzip_bytes::words(100'000), {"", 6, 3}));
  REQUIRE(::mkdir(file.index_path().c_str(), 0700) == 0);
  CHECK(has(file.decode(3).note, "it is no file"));
  REQUIRE(::rmdir(file.index_path().c_str()) == 0);
  REQUIRE(::mkfifo(file.index_path().c_str(), 0600) == 0);
  CHECK(has(file.decode(3).note, "it is no file"));
  REQUIRE(::unlink(file.index_path().c_str()) == 0);
  REQUIRE(::symlink("/dev/zero", file.index_path().c_str()) == 0);
  CHECK(has(file.decode(3).note, "it is no file"));
}

TEST_CASE("gzip index: a place in each member helps nobody, so none is written") {
  DecodeRun run;
  const std::string one = member(gzip_bytes::words(k_spacing + k_spacing / 2), {"", 6, 3});
  Indexed file(run, one + one + one);
  CHECK(file.make_index() == 0);
  CHECK(file.fault == "");
  const Seen seen = file.decode(3);
  CHECK(has(seen.note, "it is damaged"));
  CHECK(seen.fault == "");
}

TEST_CASE("gzip index: each byte of it may be wrong, and each end too early") {
  DecodeRun run;
  const std::string data = gzip_bytes::images(300'000);
  Indexed file(run, member(data, {"", 6, 3}));
  REQUIRE(file.make_index() > 4);
  const std::string right = file.index;
  for (std::size_t at = 0; at < right.size(); at += 1 + right.size() / rounds(200)) {
    std::string wrong = right;
    wrong[at] = static_cast<char>(wrong[at] ^ (1 << at % 8));
    for (const std::string& index : {wrong, right.substr(0, at)}) {
      write_file(file.index_path(), index);
      const Seen seen = file.decode(3);
      CAPTURE(at);
      CHECK(seen.fault == "");
      CHECK((seen.data == data));
      CHECK(has(seen.note, "its index is ignored: it is damaged"));
    }
  }
}

TEST_CASE("gzip index: one that lies about the data changes none of them") {
  if (!Inflater::can_begin_between()) return;  // a build with zlib
  DecodeRun run;
  const std::string data = gzip_bytes::words(1'500'000);
  const std::string packed = member(data, {"", 6, 3});
  Indexed file(run, packed);
  const std::vector<GzipPlace> right = places_of(packed, data);
  REQUIRE(right.size() > 10);
  write_file(file.index_path(), index_of(file.path(), right));
  CHECK(file.decode(3).note == "");
  std::uint64_t state = 4711;
  for (int round = 0; round < rounds(300); ++round) {
    std::vector<GzipPlace> places = right;
    GzipPlace& place = places[next_random(state) % (places.size() - 1)];
    switch (round % 6) {
      case 0:
        place.bit += next_random(state) % 16'000 + 1;
        break;
      case 1:
        place.bit -= next_random(state) % 8'000 + 1;
        break;
      case 2:
        place.data += next_random(state) % 9'000 + 1;
        break;
      case 3:
        place.data -= next_random(state) % 9'000 + 1;
        break;
      case 4:
        place.window[next_random(state) % k_index_window] ^= std::byte{1};
        break;
      case 5:
        place.data += std::uint64_t{1} << (40 + round % 20);
        break;
    }
    write_file(file.index_path(), index_of(file.path(), places));
    const Seen seen = file.decode(3);
    CAPTURE(round);
    CHECK(seen.fault == "");
    CHECK((seen.data == data));
    CHECK(has(seen.note, "its index is ignored: it "));
  }
  // Other members, of which there are none: nothing lies between two places of one member.
  std::vector<GzipPlace> apart = right;
  for (std::size_t i = 0; i < apart.size(); ++i) apart[i].member = static_cast<std::uint32_t>(i);
  write_file(file.index_path(), index_of(file.path(), apart));
  CHECK((file.decode(3).data == data));
}

TEST_CASE("gzip index: damage of the file behind it is found as without one") {
  DecodeRun run;
  const std::string data = gzip_bytes::images(900'000);
  const std::string packed = member(data, {"", 6, 3});
  const timespec times[] = {{}, {1'600'000'000, 0}};
  std::uint64_t state = 99;
  for (int round = 0; round < rounds(60); ++round) {
    Indexed file(run, packed);
    REQUIRE(::utimensat(AT_FDCWD, file.path().c_str(), times, 0) == 0);
    file.make_index();
    std::string bad = packed;
    const std::size_t at = 20 + next_random(state) % (bad.size() - 20);
    bad[at] = static_cast<char>(bad[at] ^ (1 << round % 8));
    write_file(file.path(), bad);
    REQUIRE(::utimensat(AT_FDCWD, file.path().c_str(), times, 0) == 0);
    // The sample may have the changed byte: then it is another file's.
    const Seen with = file.decode(3);
    const Seen without = file.decode(1, false);
    CAPTURE(at);
    // The decoder that began in between may notice it some bytes earlier.
    const auto kind = [](const std::string& text) { return text.substr(0, text.find(" at byte")); };
    CHECK(kind(with.fault) == kind(without.fault));
    CHECK(with.fault != "");
    const std::size_t least = std::min(with.data.size(), without.data.size());
    const std::size_t sure = least - std::min<std::size_t>(least, 512);
    CHECK(with.data.compare(0, sure, without.data, 0, sure) == 0);
  }
}
