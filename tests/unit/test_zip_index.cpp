#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cstdlib>

#include "daemon/worker/archive/archive_entries.hpp"
#include "daemon/worker/archive/zip_index.hpp"
#include "piece_run.hpp"
#include "texts.hpp"
#include "zip_file.hpp"

using namespace nodestage;
using zip_file::Layout;
using zip_file::little;
using zip_file::Member;
using zip_file::Reading;
using zip_file::stored;
using zip_file::zip;

namespace {

Reading read(const PieceRun& run, const std::string& bytes) {
  write_file(run.scratch / "x.zip", bytes);
  return zip_file::read_all(run.scratch / "x.zip",
                            [](Source& source) { return open_zip_entries(source); });
}

std::string fault_of(const PieceRun& run, const std::string& bytes) {
  return read(run, bytes).fault;
}

std::string build(PieceRun& run, const std::string& bytes, const std::string& name = "x.zip") {
  write_file(run.scratch / name, bytes);
  return run.build(name);
}

Entry only_entry(const PieceRun& run, const Member& member) {
  const Reading all = read(run, zip({member}));
  REQUIRE(all.fault == "");
  REQUIRE(all.entries.size() == 1);
  return all.entries[0].entry;
}

Member with_extra(std::uint64_t id, const std::string& field) {
  Member member = stored("name", "data");
  member.told.extra =
      "\x99\x99" + little(3, 2) + "abc" + little(id, 2) + little(field.size(), 2) + field;
  return member;
}

Entry with_attributes(const PieceRun& run, const std::string& name, std::uint64_t system,
                      std::uint64_t attributes) {
  Member member = stored(name, "");
  member.system = system;
  member.attributes = attributes;
  return only_entry(run, member);
}

}  // namespace

TEST_CASE("what looks like records of zip64 in a name is a name") {
  const PieceRun run;
  const std::string wide = "PK\x06\x06" + little(44, 8) + std::string(44, '\1');
  const std::string locator = "PK\x06\x07" + little(0, 4) + little(30, 8) + little(1, 4);
  for (const std::string& name :
       {locator, "x" + locator, wide + locator, std::string("PK\x05\x06") + std::string(18, 'y')}) {
    const Reading all = read(run, zip({stored("first", "1"), stored(name, "2")}));
    CHECK(all.fault == "");
    REQUIRE(all.entries.size() == 2);
    CHECK(all.entries[1].data == "2");
  }
}

TEST_CASE("a directory is found behind comments, padding and 64-bit records") {
  const PieceRun run;
  const std::vector<Member> members{stored("one", "1"), zip_file::packed("two", "22")};
  Layout layout;
  SUBCASE("nothing of that") {}
  SUBCASE("a comment that looks like an end") {
    layout.comment = std::string("PK\5\6", 4) + std::string(18, '\0') + "PK\5\6 and more";
  }
  SUBCASE("zip64") { layout.is_wide = true; }
  SUBCASE("zip64 and a comment") {
    layout.is_wide = true;
    layout.comment = "words";
  }
  SUBCASE("other bytes between members and directory") { layout.between = std::string(5000, 'x'); }
  SUBCASE("a program before it, which the offsets count") {
    layout.before = std::string(100, '#');
    layout.shift = 100;
  }
  SUBCASE("a program before it, which the offsets do not count") {
    layout.before = std::string(100, '#');
  }
  SUBCASE("the same with zip64") {
    layout.before = std::string(100, '#');
    layout.is_wide = true;
  }
  for (const std::size_t padding : {0U, 1U, 10'000U}) {
    CAPTURE(padding);
    const Reading all = read(run, zip(members, layout) + std::string(padding, '\0'));
    CHECK(all.fault == "");
    REQUIRE(all.entries.size() == 2);
    CHECK(all.entries[0].data == "1");
    CHECK(all.entries[1].data == "22");
  }
}

TEST_CASE("what is no whole directory is a file that is cut off") {
  const PieceRun run;
  const std::string whole = zip({stored("one", "1")});
  CHECK(has(fault_of(run, whole.substr(0, whole.size() - 1)), "cut off at"));
  CHECK(has(fault_of(run, whole.substr(1)), "cut off at"));
  CHECK(has(fault_of(run, whole + std::string(70'000, 'x')), "cut off at"));
  std::string bad = whole;
  bad[bad.find("PK\1\2")] = 'Q';
  CHECK(has(fault_of(run, bad), "cut off at"));
  bad = whole;
  bad[bad.find("PK\1\2") + 28] = 100;  // a name beyond the directory's end
  CHECK(has(fault_of(run, bad), "cut off at"));
}

TEST_CASE("bytes behind the end are ignored when the directory is where it says") {
  PieceRun run;
  const std::string whole = zip({stored("one", "1")});
  CHECK(fault_of(run, whole + "\nx") == "");
  CHECK(build(run, whole + "\nx") == "");
  CHECK(run.note == "bytes after the end of the archive were ignored");
  CHECK(fault_of(run, zip({}) + "x") == "");
  // An inner zip whose end happens to be left of an outer one.
  for (const std::string& inner : {whole, zip({})}) {
    const std::string outer = zip({stored("inner.zip", inner), stored("more", "22")});
    CHECK(has(fault_of(run, outer.substr(0, outer.find("more") + 1)), "cut off at"));
  }
  Layout layout{.before = "#!/bin/sh"};
  CHECK(has(fault_of(run, zip({stored("one", "1")}, layout) + "x"), "cut off at"));
}

TEST_CASE("a zip behind a program is told by its end, when its name says zip") {
  PieceRun run;
  Layout layout{.before = "#!/bin/sh\nexec unzip"};
  CHECK(build(run, zip({stored("one", "1")}, layout)) == "");
  CHECK(run.kind == "zip");
  CHECK(build(run, zip({stored("one", "1")}, layout), "x.bin") == "");
  CHECK(run.kind == "file");
}

TEST_CASE("what is wanted of it must be readable, which is told before anything is written") {
  PieceRun run;
  Member member = stored("big", "data");
  SUBCASE("a method of the last century") {
    member.told.method = member.local.method = 6;
    CHECK(has(build(run, zip({stored("one", "1"), member})),
              "x.zip: entry 'big': is compressed with method 6, which nodestage cannot read\n"));
  }
  SUBCASE("Deflate64, and one that only libarchive reads") {
    Member other = stored("bzip2", "1");
    other.told.method = other.local.method = 12;
    member.told.method = member.local.method = 9;
    CHECK(has(build(run, zip({other, member})),
              "x.zip: entry 'big': is compressed with method 9 (Deflate64) among others, "
              "which nodestage cannot read\n"));
    return;
  }
  SUBCASE("a password") {
    member.told.flags = member.local.flags = 1;
    CHECK(has(build(run, zip({stored("one", "1"), member})),
              "x.zip: entry 'big': is protected with a password, which a job cannot type\n"));
    return;
  }
  CHECK(run.shell("test ! -e " + run.out("one")) == 0);
  run.item.exclude = {"big"};
  CHECK(run.build("x.zip") == "");
}

TEST_CASE("one member by a rare method changes nothing of the others") {
  PieceRun run(
      "echo x >f; touch -d '1969-12-31 UTC' f; echo y >g; zip -q x.zip f; "
      "zip -qZ bzip2 x.zip g");
  CHECK(run.build("x.zip") == "");
  struct stat info {};
  REQUIRE(::stat(run.out("f").c_str(), &info) == 0);
  CHECK(info.st_mtime == -86400);
}

TEST_CASE("a part of a split archive says so") {
  PieceRun run(
      "head -c 300K /dev/urandom >f; zip -q -s 100K s.zip f; 7z a -v100k s.7z f "
      ">/dev/null");
  for (const std::string name : {"s.zip", "s.z01"})
    CHECK(has(run.build(name), "is one part of a zip archive in several files"));
  Layout layout{.disk = 2};
  CHECK(has(fault_of(run, zip({stored("one", "1")}, layout)), "one part of a zip archive"));
}

TEST_CASE("64-bit numbers stand in for those that are all ones, and only for them") {
  const PieceRun run;
  Member member = stored("name", "data");
  member.told.size = 0xffffffff;
  member.told.extra = little(1, 2) + little(8, 2) + little(4, 8);
  CHECK(only_entry(run, member).size == 4);
  member.told.packed = 0xffffffff;
  member.offset = 0xffffffff;
  member.told.extra = little(1, 2) + little(24, 2) + little(4, 8) + little(4, 8) + little(0, 8);
  member.local.size = member.local.packed = 0xffffffff;
  member.local.extra = little(1, 2) + little(16, 2) + little(4, 8) + little(4, 8);
  CHECK(only_entry(run, member).size == 4);
  member.told.extra = little(1, 2) + little(16, 2) + little(4, 8) + little(4, 8);
  CHECK(has(fault_of(run, zip({member})), "has no 64-bit size"));
}

TEST_CASE("modes and kinds come from Unix attributes, or from those of DOS") {
  const PieceRun run;
  using Kind = Entry::Kind;
  struct Case {
    const char* name;
    std::uint64_t system;
    std::uint64_t attributes;
    Kind kind;
    mode_t mode;
  };
  constexpr std::uint64_t k_unix = 3;
  constexpr std::uint64_t k_macos = 19;
  for (const Case& c :
       {Case{"f", k_unix, 0100640U << 16, Kind::file, 0640},
        Case{"f", k_macos, 0100640U << 16, Kind::file, 0640},
        Case{"f", k_unix, 0104755U << 16, Kind::file, 04755},
        Case{"f", k_unix, 0600U << 16, Kind::file, 0600}, Case{"f", k_unix, 0, Kind::file, 0664},
        Case{"p", k_unix, 010644U << 16, Kind::file, 0644},
        Case{"d/", k_unix, 040750U << 16, Kind::directory, 0750},
        Case{"d", k_unix, 040750U << 16, Kind::directory, 0750},
        Case{"d/", k_unix, 0100640U << 16, Kind::directory, 0751},
        Case{"c", k_unix, 020644U << 16, Kind::other, 0644}, Case{"f", 0, 0x20, Kind::file, 0664},
        Case{"f", 0, 0x21, Kind::file, 0444}, Case{"d", 0, 0x10, Kind::directory, 0775},
        Case{"d/", 0, 0, Kind::directory, 0775}, Case{"f", 10, 0xffff0020, Kind::file, 0664}}) {
    CAPTURE(c.name);
    CAPTURE(c.attributes);
    const Entry entry = with_attributes(run, c.name, c.system, c.attributes);
    CHECK(entry.kind == c.kind);
    CHECK(entry.mode == c.mode);
  }
}

TEST_CASE("times: Unix before DOS, signed up to 2038, unsigned beyond") {
  const PieceRun run;
  ::setenv("TZ", "UTC-3", 1);
  ::tzset();
  Member dos = stored("n", "");
  dos.told.dos_time = 0x58220002;  // 2024-01-02, 4 seconds
  CHECK(only_entry(run, dos).mtime->tv_sec == 1704153604 - 3 * 3600);
  CHECK(only_entry(run, with_extra(0x5455, "\1" + little(1000, 4))).mtime->tv_sec == 1000);
  CHECK(only_entry(run, with_extra(0x5455, "\3" + little(1000, 4) + "abcd")).mtime->tv_sec == 1000);
  CHECK(only_entry(run, with_extra(0x5455, "\2" + little(1000, 4))).mtime->tv_sec > 1000);
  CHECK(only_entry(run, with_extra(0x5855, little(5, 4) + little(1000, 4))).mtime->tv_sec == 1000);
  CHECK(only_entry(run, with_extra(0x5455, "\1" + little(0xffffff00, 4))).mtime->tv_sec == -256);
  Member late = with_extra(0x5455, "\1" + little(0x80000001, 4));
  late.told.dos_time = 0x74210000;  // 2038-01-01
  CHECK(only_entry(run, late).mtime->tv_sec == 0x80000001);
  ::unsetenv("TZ");
  ::tzset();
}

TEST_CASE("names: bytes, UTF-8 where that is told and fits, and DOS's backslashes") {
  const PieceRun run;
  const auto in_utf8 = [](const std::string& of) {
    return "\1" + little(zip_file::crc32(of), 4) + "n\xc3\xa4me";
  };
  CHECK(only_entry(run, with_extra(0x7075, in_utf8("name"))).name == "n\xc3\xa4me");
  CHECK(only_entry(run, with_extra(0x7075, in_utf8("other"))).name == "name");
  CHECK(with_attributes(run, "a\\b", 3, 0).name == "a\\b");
  CHECK(with_attributes(run, "a\\b", 0, 0).name == "a/b");
  CHECK(with_attributes(run, "a\\", 0, 0).kind == Entry::Kind::directory);
  CHECK(with_attributes(run, "a/b\\c", 0, 0).name == "a/b\\c");
}

TEST_CASE("members come by their places; of two with one name the later one wins") {
  PieceRun run;
  std::vector<Member> members{stored("a", "first"), stored("b", "b"), stored("a", "second")};
  REQUIRE(build(run, zip(members)) == "");
  CHECK(file_text(run.out("a")) == "second");
  CHECK(read(run, zip(members)).entries[2].data == "second");
}
