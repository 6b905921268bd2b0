#include <doctest/doctest.h>

#include "daemon/worker/archive/archive_entries.hpp"
#include "daemon/worker/archive/zip_member.hpp"
#include "daemon/worker/decode/codec.hpp"
#include "decode_run.hpp"
#include "piece_run.hpp"
#include "zip_file.hpp"

using namespace nodestage;
using zip_file::Member;
using zip_file::packed;
using zip_file::stored;

namespace {

zip_file::Reading read_bytes(const PieceRun& run, const std::string& bytes) {
  write_file(run.scratch / "x.zip", bytes);
  return zip_file::read_all(run.scratch / "x.zip",
                            [](Source& source) { return open_zip_entries(source); });
}

zip_file::Reading read(const PieceRun& run, const std::vector<Member>& members) {
  return read_bytes(run, zip_file::zip(members));
}

bool fails(const PieceRun& run, const Member& member, const std::string& cause) {
  const std::string fault = read(run, {stored("before", "x"), member, stored("after", "y")}).fault;
  INFO(fault);
  CHECK(fault.starts_with(run.scratch / "x.zip: damaged or cut off: "));
  CHECK(has(fault, "\nMake or transfer it again. Test it with: unzip -t "));
  return has(fault, cause);
}

// Deflate64, by 7-Zip, which stores what that does not make smaller.
Member packed64(const PieceRun& run, const std::string& name, const std::string& data) {
  write_file(run.scratch / "in", data);
  run.prepare("rm -f d.zip; " + seven_zip() + " a -tzip -mm=Deflate64 d.zip in > /dev/null");
  const std::string all = file_text(run.scratch / "d.zip");
  const auto number = [&](std::size_t at) {
    return little_endian<std::uint16_t>(std::string_view(all), at);
  };
  Member member = stored(name, data);
  member.told.method = member.local.method = number(8);
  const std::uint64_t size = little_endian<std::uint32_t>(std::string_view(all), 18);
  member.told.packed = member.local.packed = size;
  member.data = all.substr(30U + number(26) + number(28), size);
  return member;
}

// What is changed of a member, and the fault of that.
struct Change {
  const char* fault;
  void (*make)(Member& member);

  [[nodiscard]] Member of(Member member) const {
    make(member);
    return member;
  }
};

constexpr const char* k_wrong_size = "do not have the recorded size";
constexpr const char* k_wrong_packed_size = "compressed data do not have the recorded size";

void set_data(Member& member, const std::string& data) {
  member.data = data;
  member.told.packed = member.local.packed = data.size();
}

// Small: inflated at once; large: in blocks; most of the archive: on the parser's thread.
const std::string k_small_text = "some text, some text, some text";
const std::string k_large_text(3'000'000, 'z');

}  // namespace

TEST_CASE("data are those that were packed, whatever their size") {
  const PieceRun run;
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{1} << 20, (std::size_t{1} << 20) + 1,
        std::size_t{3} << 20, std::size_t{9} << 20}) {
    CAPTURE(size);
    std::string data(size, '\0');
    for (std::size_t i = 0; i < size; ++i) data[i] = static_cast<char>(i * i >> 7);
    for (const Member& member : {stored("n", data), packed("n", data), packed64(run, "n", data)}) {
      const auto alone = read(run, {member});
      CHECK(alone.fault == "");
      CHECK((alone.entries.at(0).data == data));
      const auto between = read(run, {member, member, member});
      CHECK(between.fault == "");
      CHECK((between.entries.at(1).data == data));
    }
  }
}

TEST_CASE("Deflate64: in whatever pieces it comes and is asked for, and damaged") {
  const PieceRun run;
  // What is far back comes again; text, zeros, and noise, which is stored.
  const std::string data =
      sample(300'000) + sample(60'000) + std::string(200'000, '\0') + sample(65'000);
  const Member member = packed64(run, "n", data);
  REQUIRE(member.told.method == 9);
  const auto codec = make_deflate64_codec();
  for (const Pieces& pieces : {Pieces{1, 1},
                               {1, 70'000},
                               {7, 13},
                               {8, 1},
                               {9, 100'000},
                               {5000, 7},
                               {1'000'000, 1'000'000}}) {
    CAPTURE(pieces.in);
    CHECK((decode_in_pieces(*codec, member.data, pieces) == data));
  }
  std::uint64_t state = 88172645463325252ULL;
  int faults = 0;
  for (int i = 0; i < 200; ++i) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    std::string damaged = member.data;
    damaged[state % damaged.size()] ^= static_cast<char>(1U << (state >> 32) % 8);
    damaged.resize(damaged.size() - (state >> 40) % 2 * (state % 1000));
    const auto decoded = decode_in_pieces(*codec, damaged, {4096, 65'536});
    if (!decoded) ++faults;
    CHECK((decoded != data));
  }
  CHECK(faults > 50);
  CHECK((decode_in_pieces(*codec, member.data, {4096, 65'536}) == data));
}

TEST_CASE("Deflate64: codes and distances that cannot be are faults") {
  const auto codec = make_deflate64_codec();
  const auto fails_with = [&](std::string_view bytes) {
    REQUIRE(codec->begin_frame());
    std::string out(1000, '\0');
    return !codec->decode(std::as_bytes(std::span(bytes)), std::as_writable_bytes(std::span(out)));
  };
  CHECK(fails_with(std::string_view("\x07", 1)));                  // the type 3
  CHECK(fails_with(std::string_view("\x01\x01\x00\x00\x00", 5)));  // a size without its complement
  CHECK(fails_with(std::string_view("\x03\x02\x00", 3)));          // from before the beginning
  CHECK(fails_with(std::string_view("\x05\x00\x92\x24\x49", 5)));  // more codes than there are
  CHECK_FALSE(fails_with(std::string_view("\x03\x00", 2)));        // nothing at all
}

TEST_CASE("sizes may be left to a data descriptor, and descriptors are passed over") {
  const PieceRun run;
  Member member = packed("n", k_small_text);
  member.local.crc = member.local.packed = member.local.size = 0;
  member.told.flags = member.local.flags = 8;
  const std::string numbers = zip_file::little(member.told.crc, 4) +
                              zip_file::little(member.told.packed, 4) +
                              zip_file::little(member.told.size, 4);
  for (const std::string& after : {"PK\7\10" + numbers, numbers}) {
    member.after = after;
    const auto all = read(run, {member, stored("last", "x")});
    CHECK(all.fault == "");
    CHECK(all.entries.at(0).data == k_small_text);
  }
}

TEST_CASE("a local header that says something else is a fault that says what") {
  const PieceRun run;
  for (const Member& good : {stored("name", k_small_text), packed("name", k_small_text),
                             packed64(run, "name", k_small_text)}) {
    for (const Change& change :
         {Change{"name", [](Member& member) { member.local.name = "eman"; }},
          Change{"name", [](Member& member) { member.local.name = "longer"; }},
          Change{"compression method", [](Member& member) { member.local.method ^= 8; }},
          Change{"encryption", [](Member& member) { member.local.flags = 1; }},
          Change{"checksum", [](Member& member) { ++member.local.crc; }},
          Change{"compressed size", [](Member& member) { ++member.local.packed; }},
          Change{"size", [](Member& member) { ++member.local.size; }}})
      CHECK(fails(run, change.of(good), std::string("disagree on its ") + change.fault));
  }
  std::string bytes = zip_file::zip({stored("name", "data")});
  bytes[0] = 'Q';
  CHECK(has(read_bytes(run, bytes).fault, "no entry starts where the directory says"));
}

TEST_CASE("data that are not as both headers say are a fault") {
  const PieceRun run;
  for (const std::string& text : {k_small_text, k_large_text}) {
    CAPTURE(text.size());
    for (const Member& good :
         {stored("name", text), packed("name", text), packed64(run, "name", text)}) {
      for (const Change& change :
           {Change{"wrong checksum", [](Member& m) { m.told.crc = m.local.crc ^= 1; }},
            Change{k_wrong_size, [](Member& m) { m.told.size = ++m.local.size; }},
            Change{k_wrong_size, [](Member& m) { m.told.size = --m.local.size; }}})
        CHECK_MESSAGE(fails(run, change.of(good), change.fault), change.fault);
      if (good.told.method == 0) continue;
      for (const Change& change :
           {Change{k_wrong_packed_size, [](Member& m) { set_data(m, m.data + '\0'); }},
            Change{k_wrong_packed_size,
                   [](Member& m) { set_data(m, m.data.substr(0, m.data.size() - 2)); }},
            // A block of the type that there is not.
            Change{"invalid compressed data", [](Member& m) { m.data[0] = '\7'; }}})
        CHECK_MESSAGE(fails(run, change.of(good), change.fault), change.fault);
    }
  }
}

TEST_CASE("a symbolic link's text is its data, and a text that cannot be one is a fault") {
  const PieceRun run;
  Member link = packed("link", "../where/to");
  link.attributes = 0120777U << 16;
  const auto all = read(run, {link});
  CHECK(all.fault == "");
  CHECK(all.entries.at(0).entry.kind == Entry::Kind::symlink);
  CHECK(all.entries.at(0).entry.link == "../where/to");
  for (const std::string& text : {std::string(), std::string(5000, 'l'), std::string("a\0b", 3)}) {
    link = stored("link", text);
    link.attributes = 0120777U << 16;
    CHECK(fails(run, link, "symbolic link 'link'"));
  }
}
