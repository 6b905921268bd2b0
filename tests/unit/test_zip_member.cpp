#include <doctest/doctest.h>

#include "daemon/worker/zip_entries.hpp"
#include "daemon/worker/zip_member.hpp"
#include "piece_run.hpp"
#include "zip_file.hpp"

using namespace nodestage;
using zip_file::Member;
using zip_file::packed;
using zip_file::stored;

namespace {

zip_file::Reading read(const PieceRun& run, const std::vector<Member>& members) {
  spit(run.scratch / "x.zip", zip_file::zip(members));
  return zip_file::read_all(run.scratch / "x.zip",
                            [](Source& source) { return open_zip_entries(source); });
}

bool fails(const PieceRun& run, const Member& member, const std::string& cause) {
  const std::string fault = read(run, {stored("before", "x"), member, stored("after", "y")}).fault;
  INFO(fault);
  CHECK(fault.starts_with(run.scratch / "x.zip: damaged or cut off: "));
  CHECK(fault.find("\nMake or transfer it again. Test it with: unzip -t ") != std::string::npos);
  return fault.find(cause) != std::string::npos;
}

// Small: inflated at once; large: in blocks; most of the archive: on the parser's thread.
const std::string k_small = "some text, some text, some text";
const std::string k_large(3'000'000, 'z');

}  // namespace

TEST_CASE("data are those that were packed, whatever their size") {
  const PieceRun run;
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{1} << 20, (std::size_t{1} << 20) + 1,
        std::size_t{3} << 20, std::size_t{9} << 20}) {
    CAPTURE(size);
    std::string data(size, '\0');
    for (std::size_t i = 0; i < size; ++i) data[i] = static_cast<char>(i * i >> 7);
    for (const Member& member : {stored("n", data), packed("n", data)}) {
      const auto alone = read(run, {member});
      CHECK(alone.fault == "");
      CHECK((alone.entries.at(0).data == data));
      const auto between = read(run, {member, member, member});
      CHECK(between.fault == "");
      CHECK((between.entries.at(1).data == data));
    }
  }
}

TEST_CASE("sizes may be left to a data descriptor, and descriptors are passed over") {
  const PieceRun run;
  Member member = packed("n", k_small);
  member.local.crc = member.local.packed = member.local.size = 0;
  member.told.flags = member.local.flags = 8;
  const std::string numbers = zip_file::little(member.told.crc, 4) +
                              zip_file::little(member.told.packed, 4) +
                              zip_file::little(member.told.size, 4);
  for (const std::string& after : {"PK\7\10" + numbers, numbers}) {
    member.after = after;
    const auto all = read(run, {member, stored("last", "x")});
    CHECK(all.fault == "");
    CHECK(all.entries.at(0).data == k_small);
  }
}

TEST_CASE("a local header that says something else is a fault that says what") {
  const PieceRun run;
  for (const Member& good : {stored("name", k_small), packed("name", k_small)}) {
    Member member = good;
    member.local.name = "eman";
    CHECK(fails(run, member, "disagree on its name"));
    member.local.name = "longer";
    CHECK(fails(run, member, "disagree on its name"));
    member = good;
    member.local.method ^= 8;
    CHECK(fails(run, member, "disagree on its compression method"));
    member = good;
    member.local.flags = 1;
    CHECK(fails(run, member, "disagree on its encryption"));
    member = good;
    ++member.local.crc;
    CHECK(fails(run, member, "disagree on its checksum"));
    member = good;
    ++member.local.packed;
    CHECK(fails(run, member, "disagree on its compressed size"));
    member = good;
    ++member.local.size;
    CHECK(fails(run, member, "disagree on its size"));
  }
  std::string bytes = zip_file::zip({stored("name", "data")});
  bytes[0] = 'Q';
  spit(run.scratch / "x.zip", bytes);
  const auto all = zip_file::read_all(run.scratch / "x.zip",
                                      [](Source& source) { return open_zip_entries(source); });
  CHECK(all.fault.find("no entry begins where the directory says") != std::string::npos);
}

TEST_CASE("data that are not as both headers say are a fault") {
  const PieceRun run;
  for (const std::string& text : {k_small, k_large}) {
    CAPTURE(text.size());
    for (const Member& good : {stored("name", text), packed("name", text)}) {
      const bool is_stored = good.told.method == 0;
      Member member = good;
      member.told.crc = member.local.crc ^= 1;
      CHECK(fails(run, member, "wrong checksum"));
      member = good;
      member.told.size = ++member.local.size;
      CHECK(fails(run, member, "do not have the size told"));
      member = good;
      member.told.size = --member.local.size;
      CHECK(fails(run, member, "do not have the size told"));
      if (is_stored) continue;
      member = good;
      member.data += '\0';
      member.told.packed = ++member.local.packed;
      CHECK(fails(run, member, "compressed data do not have the size told"));
      member = good;
      member.data.resize(member.data.size() - 2);
      member.told.packed = member.local.packed = member.data.size();
      CHECK(fails(run, member, "compressed data do not have the size told"));
      member = good;
      member.data[0] = '\7';  // a block of the type that there is not
      CHECK(fails(run, member, "invalid compressed data"));
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
