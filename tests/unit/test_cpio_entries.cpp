// Our own reader of cpio, beside libarchive's and alone with what is damaged.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <numeric>
#include <random>

#include "daemon/worker/archive/archive_entries.hpp"
#include "daemon/worker/archive/cpio_entries.hpp"
#include "daemon/worker/archive/cpio_header.hpp"
#include "daemon/worker/archive/cpio_links.hpp"
#include "entry_lines.hpp"
#include "piece_run.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

std::vector<std::string> ours_of(const std::string& path) {
  return lines_of(path, [](Decoder& decoder) {
    return Result<std::unique_ptr<Entries>>(open_cpio_entries(decoder));
  });
}

std::vector<std::string> libarchives_of(const std::string& path) {
  return lines_of(path,
                  [](Decoder& decoder) { return open_stream_entries(Container::cpio, decoder); });
}

void check_cpio_agreement(const std::string& path, const std::string& how) {
  INFO(how);
  const auto ours = ours_of(path);
  const auto others = libarchives_of(path);
  CHECK(ours.back() == "end");
  CHECK(ours.size() > 12);
  CHECK(ours.size() == others.size());
  for (std::size_t i = 0; i < std::min(ours.size(), others.size()); ++i)
    CHECK(ours[i] == others[i]);
}

constexpr const char* k_cpio_tree =
    "mkdir -p t/sub/empty && cd t && echo one > one && : > nothing && seq 300000 > numbers && "
    "ln one hard && ln one sub/hard && ln -s one soft && mkfifo pipe && chmod 4750 one && "
    "chmod 1777 sub && : > none && ln none none2 && echo out > out && ln out ../partner && "
    "l=$(printf 'l%.0s' $(seq 90)) && mkdir -p $l/$l && echo deep > $l/$l/$l && "
    "ln -s $l/$l/$l$l long && ln $l/$l/$l $l/hard && echo x > $'bad\\xff name' && "
    "echo y > $'nfc-\\xc3\\xa9' && touch -hd '2033-05-06 07:08:09' soft && "
    "head -c 5000 /dev/urandom > random; cd ..";

void make_tree(const PieceRun& run) {
  write_file(run.scratch / "make", k_cpio_tree);
  REQUIRE(run.shell("bash make") == 0);
}

// An entry as a writer of newc or crc makes it.
struct Made {
  std::string name;
  std::string data;
  unsigned mode = 0100644;
  unsigned inode = 0;
  unsigned links = 1;
};

std::string filled(std::string bytes) {
  bytes.resize((bytes.size() + 3) / 4 * 4);
  return bytes;
}

std::string newc(const Made& entry) {
  char header[111];
  std::snprintf(header, sizeof header, "070701%08X%08X%016X%08X%08X%08zX%032X%08zX%08X",
                entry.inode, entry.mode, 0, entry.links, 1000000000, entry.data.size(), 0,
                entry.name.size() + 1, 0);
  return filled(header + entry.name + '\0') + filled(entry.data);
}

std::string newc_of(const std::vector<Made>& entries) {
  std::string archive;
  for (const Made& entry : entries) archive += newc(entry);
  return archive + newc({"TRAILER!!!", ""});
}

// A field of the first header of a newc archive, by its number.
std::string with_field(std::string archive, std::size_t number, const std::string& value) {
  return archive.replace(6 + 8 * number, 8, value);
}
constexpr std::size_t k_size = 6;
constexpr std::size_t k_name_size = 11;
constexpr std::size_t k_checksum = 12;

std::vector<std::string> lines_of_bytes(const PieceRun& run, const std::string& archive) {
  write_file(run.scratch / "a.cpio", archive);
  return ours_of(run.scratch / "a.cpio");
}

std::string last_of_cpio(const PieceRun& run, const std::string& archive) {
  return lines_of_bytes(run, archive).back();
}

// Builds it; the fault, "" for none.
std::string built(PieceRun& run, const std::string& archive) {
  write_file(run.scratch / "a.cpio", archive);
  return run.build(run.scratch / "a.cpio");
}

}  // namespace

TEST_CASE("our cpio reader agrees with libarchive's on every writer's forms") {
  const PieceRun run;
  make_tree(run);
  for (const std::string how :
       {"cpio --quiet -o0H newc", "cpio --quiet -o0H crc", "cpio --quiet -o0H odc",
        "cpio --quiet -o0H bin", "cpio --quiet -o0H newc --renumber-inodes",
        "cpio --quiet -o0H odc --renumber-inodes", "bsdcpio --quiet -o0H newc",
        "bsdcpio --quiet -o0H odc", "bsdtar --format newc -nT- --null -cf-",
        "bsdtar --format odc -nT- --null -cf-", "bsdtar --format cpio -nT- --null -cf-"}) {
    REQUIRE(run.shell("find t -print0 | LC_ALL=C.UTF-8 " + how + " > x 2>/dev/null") == 0);
    check_cpio_agreement(run.scratch / "x", how);
  }
}

TEST_CASE("our cpio reader agrees with libarchive's behind every coding") {
  const PieceRun run;
  make_tree(run);
  REQUIRE(run.shell("find t -depth -print0 | cpio --quiet -o0H newc > x") == 0);
  for (const std::string coder : {"gzip", "bzip2", "xz -0", "zstd -q", "lz4 -q"}) {
    REQUIRE(run.shell(coder + " -c < x > y") == 0);
    check_cpio_agreement(run.scratch / "y", coder);
    CHECK(ours_of(run.scratch / "y") == ours_of(run.scratch / "x"));
  }
}

TEST_CASE("the forms of a cpio header") {
  using namespace std::string_view_literals;
  CHECK(cpio_form("070701") == CpioForm::newc);
  CHECK(cpio_form("070702") == CpioForm::newc);
  CHECK(cpio_form("070707") == CpioForm::odc);
  CHECK(cpio_form("\xc7\x71") == CpioForm::bin_little);
  CHECK(cpio_form("\x71\xc7") == CpioForm::bin_big);
  CHECK(cpio_form("070703") == CpioForm::none);
  CHECK(cpio_form("07070") == CpioForm::none);
  const auto wide = cpio_header(CpioForm::newc,
                                "070702fFFFffff000081a40000000000000000000000025e0be100000000070000"
                                "0008000000010000000000000000"
                                "000000050000abcd");
  REQUIRE(wide);
  CHECK(wide->inode == 0xffffffff);
  CHECK(wide->mode == 0100644);
  CHECK(wide->links == 2);
  CHECK(wide->mtime == 0x5e0be100);
  CHECK(wide->size == 7);
  CHECK(wide->device == 0x800000001);
  CHECK(wide->name_size == 5);
  CHECK(wide->checksum == 0xabcd);
  const auto old =
      cpio_header(CpioForm::odc,
                  "0707070000010000021006440000000000000000030000007777777777700001077777777777");
  REQUIRE(old);
  CHECK(old->device == 1);
  CHECK(old->inode == 2);
  CHECK(old->links == 3);
  CHECK(old->mtime == 077777777777);
  CHECK(old->name_size == 8);
  CHECK(old->size == 077777777777);
  CHECK_FALSE(old->checksum);
  const auto big = cpio_header(CpioForm::bin_big,
                               "\x71\xc7\0\1\0\2\x81\xa4\0\0\0\0\0\3\0\0\0\1\0\2\0\4\0\5\0\6"sv);
  REQUIRE(big);
  CHECK(big->device == 1);
  CHECK(big->inode == 2);
  CHECK(big->mode == 0100644);
  CHECK(big->links == 3);
  CHECK(big->mtime == 0x10002);
  CHECK(big->name_size == 4);
  CHECK(big->size == 0x50006);
}

TEST_CASE("bin in the other byte order") {
  const PieceRun run;
  make_tree(run);
  REQUIRE(run.shell("find t -print0 | cpio --quiet -o0H bin > x") == 0);
  // Headers alone: the data's order is the writer's.
  std::string archive = file_text(run.scratch / "x");
  for (std::size_t at = 0;;) {
    const auto header = cpio_header(CpioForm::bin_little, std::string_view(archive).substr(at, 26));
    REQUIRE(header);
    const bool is_last = has(archive.substr(at + 26, header->name_size), "TRAILER!!!");
    for (std::size_t i = at; i < at + 26; i += 2) std::swap(archive[i], archive[i + 1]);
    if (is_last) break;
    at += 26 + (header->name_size + 1) / 2 * 2 + (header->size + 1) / 2 * 2;
  }
  write_file(run.scratch / "y", archive);
  CHECK(ours_of(run.scratch / "y") == ours_of(run.scratch / "x"));
}

TEST_CASE("a cpio that is cut off anywhere is told to be") {
  PieceRun run;
  REQUIRE(run.shell("mkdir t; echo x > t/a; ln t/a t/b; ln -s a t/s; head -c 3001 /dev/urandom > "
                    "t/f; for form in newc crc odc bin; do "
                    "find t | cpio --quiet -oH $form > $form; done") == 0);
  for (const std::string form : {"newc", "crc", "odc", "bin"}) {
    const std::string whole = file_text(run.scratch / form);
    const std::size_t end = whole.find("TRAILER!!!") + 11;
    // All of the first header and of the end, and some places between.
    for (std::size_t cut = 32; cut <= end; cut += cut < 150 || cut + 50 > end ? 1 : 43) {
      const std::string last = last_of_cpio(run, whole.substr(0, cut));
      INFO(form << " cut at " << cut << ": " << last);
      // Others fill the trailer's name, too.
      CHECK((cut == end && form == "odc" ? last == "end" : has(last, ": cut off after ")));
    }
    CHECK(last_of_cpio(run, whole) == "end");
    CHECK(last_of_cpio(run, whole + "behind it") == "end");
  }
}

TEST_CASE("headers of a cpio that lie are faults") {
  PieceRun run;
  const std::string whole = newc_of({{"f", "data"}, {"g", "more"}});
  const auto with = [&](std::size_t field, const std::string& value) {
    return last_of_cpio(run, with_field(whole, field, value));
  };
  REQUIRE(last_of_cpio(run, whole) == "end");
  for (std::size_t field = 0; field < 13; ++field) {
    for (const std::string value : {"-0000001", "0000000 ", "0000000g", "0x000001"})
      CHECK(has(with(field, value), "an invalid number"));
  }
  CHECK(has(with(k_size, "FFFFFFFF"), "cut off"));
  CHECK(has(with(k_size, "00000005"), "other data where a cpio header should be"));
  CHECK(has(with(k_size, "00000000"), "other data where a cpio header should be"));
  CHECK(has(with(k_name_size, "00000000"), "a name of 0 bytes"));
  CHECK(has(with(k_name_size, "00000001"), "a name without an end"));
  CHECK(has(with(k_name_size, "FFFFFFFF"), "a name of 4294967295 bytes"));
  CHECK(has(with(k_name_size, "00010000"), "a name of 65536 bytes"));
  CHECK(has(with(k_name_size, "0000FFFF"), "cut off"));
  CHECK(has(last_of_cpio(run, newc_of({{"l", std::string(4096, 'x'), 0120777}})),
            "a symbolic link of 4096 bytes"));
  CHECK(last_of_cpio(run, newc_of({{"l", std::string(4095, 'x'), 0120777}})) == "end");
  CHECK(has(last_of_cpio(run, newc({"f", "data"}) + "junk" + newc_of({})), "other data where"));
  CHECK(has(last_of_cpio(run, newc({"f", "data"}) + std::string(512, '\0')), "other data where"));
  CHECK(has(last_of_cpio(run, "nothing of the kind"), "not a cpio header"));
}

TEST_CASE("a name that is filled with NULs ends at the first") {
  PieceRun run;
  const auto lines = lines_of_bytes(run, newc_of({{std::string("f\0\0\0", 4), "data"}}));
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].starts_with("0 f 420 1000000000.0 4  "));
}

TEST_CASE("a wrong checksum (crc) is told, also of a file that nobody wants") {
  PieceRun run;
  REQUIRE(run.shell("seq 100000 > f; echo x > g; printf 'f\\ng\\n' | cpio --quiet -oH crc > x") ==
          0);
  const std::string whole = file_text(run.scratch / "x");
  CHECK(built(run, whole) == "");
  for (const std::size_t at : {std::size_t{200}, whole.size() / 2}) {
    std::string bad = whole;
    bad[at] ^= 1;
    for (const std::string exclude : {"", "f"}) {
      run.item.exclude.clear();
      if (!exclude.empty()) run.item.exclude = {exclude};
      const std::string fault = built(run, bad);
      INFO(fault);
      CHECK(has(fault, "damaged before byte"));
      CHECK(has(fault, "(a wrong checksum of a file's data) (entry f)"));
    }
  }
  std::string wrong = whole;
  CHECK(has(last_of_cpio(run, with_field(wrong, k_checksum, "00000000")), "a wrong checksum"));
}

TEST_CASE("which names of a cpio are one file") {
  CpioLinks links;
  const CpioLinks::File file{1, 2};
  CHECK(links.first_name(file, 3, "a") == "");
  CHECK(links.first_name({2, 2}, 3, "x") == "");
  CHECK(links.first_name(file, 3, "b") == "a");
  CHECK(links.first_name(file, 3, "c") == "a");
  CHECK(links.first_name(file, 3, "d") == "");  // all names have come: another archive's
  links.forget("d");
  CHECK(links.first_name(file, 3, "e") == "");
  CHECK(links.first_name({3, 3}, 2, "e") == "");  // the name is another file's now
  CHECK(links.first_name(file, 3, "f") == "");
  CHECK(links.first_name(file, 3, "f") == "f");
  const std::string long_name(60000, 'n');
  std::uint64_t inode = 10;
  while (links.first_name({0, inode}, 2, long_name + std::to_string(inode))) ++inode;
  CHECK(inode > 4000);
  CHECK(inode < 4500);
  CHECK(links.first_name({0, 10}, 2, "y") == long_name + "10");
  CHECK(links.first_name({0, inode}, 2, long_name) == "");
}

TEST_CASE("only files of one inode are linked: no directories, symbolic links or FIFOs") {
  PieceRun run;
  const std::string archive = newc_of({{"d", "", 040755, 7, 2},
                                       {"e", "", 040700, 7, 2},
                                       {"f", "", 0100644, 7, 2},
                                       {"s", "f", 0120777, 7, 2},
                                       {"t", "e", 0120777, 7, 2},
                                       {"g", "data\n", 0100644, 7, 2}});
  REQUIRE(built(run, archive) == "");
  CHECK(run.shell("cd " + run.out() +
                  " && test -d d -a -d e -a \"$(readlink s) $(readlink t)\" = 'f e' -a f -ef g "
                  "-a \"$(cat f)\" = data") == 0);
}

TEST_CASE("odc: files that share a shortened inode number are told apart") {
  PieceRun run;
  const auto entry = [](const std::string& name, const std::string& data) {
    char header[77];
    std::snprintf(header, sizeof header, "070707%06o%06o%06o%012o%06o%06o%011o%06zo%011zo", 1, 5,
                  0100644, 0, 2, 0, 1000000000, name.size() + 1, data.size());
    return header + name + '\0' + data;
  };
  REQUIRE(built(run, entry("a", "one") + entry("b", "other") + entry("c", "other") +
                         entry("d", "one") + entry("TRAILER!!!", "")) == "");
  CHECK(run.shell("cd " + run.out() +
                  " && test a -ef d -a b -ef c -a ! a -ef b -a \"$(cat a c)\" = oneother") == 0);
}

TEST_CASE("data of a hard link reach it whatever has become of the first name") {
  PieceRun run;
  const auto check = [&](const std::vector<Made>& entries, const std::string& holds) {
    CAPTURE(holds);
    CHECK(built(run, newc_of(entries)) == "");
    CHECK(run.shell("cd " + run.out() + " && " + holds) == 0);
  };
  const Made a{"a", "", 0100644, 7, 3};
  const Made b{"b", "", 0100644, 7, 3};
  const Made c{"c", "data", 0100644, 7, 3};
  check({a, b, c}, "test \"$(cat a)\" = data -a a -ef b -a b -ef c");
  check({a, {"a", "gone", 0120777, 8, 1}, b, c},
        "test \"$(readlink a)\" = gone -a ! -L b -a b -ef c -a \"$(cat c)\" = data");
  check({a, {"a", "another"}, b, c}, "test \"$(cat a) $(cat c)\" = 'another data' -a b -ef c");
  check({a, {"a", "", 010644}, b, c}, "test \"$(cat b)\" = data -a b -ef c");
  check({a, {"a", "", 040755}, b, c}, "test -d a -a \"$(cat b)\" = data -a b -ef c");
  check({a, b, {"a", "data", 0100644, 7, 3}}, "test \"$(cat a b)\" = datadata -a a -ef b");
  check({{"a", "old", 0100644, 7, 3}, {"a", "new", 0100644, 7, 3}}, "test \"$(cat a)\" = new");
  check({{"a", "old", 0100644, 7, 3}, a}, "test \"$(cat a)\" = old");
  // What looks like another name and is not.
  check({a, {"./a", "gone", 0120777, 8, 1}, c}, "test -L a -a ! -L c -a \"$(cat c)\" = data");
}

namespace {

// Directories, links and files of a cpio, `count` of each; the processor time that reading takes.
double processor_time_for(unsigned count) {
  PieceRun run;
  std::string archive;
  for (unsigned i = 0; i < count; ++i) archive += newc({"d" + std::to_string(i), "", 040755, i, 2});
  for (unsigned i = 0; i < count; ++i)
    archive += newc({"f" + std::to_string(i), "", 0100644, i, 2});
  for (unsigned i = 0; i < count; ++i)
    archive += newc({"g" + std::to_string(i), "x", 0100644, i, 2});
  write_file(run.scratch / "a.cpio", archive + newc_of({}));
  const std::clock_t begun = std::clock();
  const auto lines = ours_of(run.scratch / "a.cpio");
  const std::clock_t ended = std::clock();
  REQUIRE(lines.size() == 3 * std::size_t{count} + 1);
  CHECK(lines.back() == "end");
  const std::string last = std::to_string(count - 1);
  CHECK(has(lines[lines.size() - 2], "g" + last + " 420 1000000000.0 1 f" + last + " "));
  return static_cast<double>(ended - begun);
}

}  // namespace

// A search through all that came before would make it 64 times as much.
TEST_CASE(
    "eight times as many directories and links of a cpio take not much more than eight times") {
  const double few = processor_time_for(5'000);
  CHECK(processor_time_for(40'000) < 30 * few);
}

// Whatever stands there: the reader comes to an end.
TEST_CASE("random damage of a cpio ends in a fault or the end") {
  PieceRun run;
  REQUIRE(run.shell("mkdir t; echo x > t/a; ln t/a t/b; ln -s a t/s; head -c 99 /dev/zero > t/f; "
                    "for form in newc crc odc bin; do "
                    "find t | cpio --quiet -oH $form > $form; done") == 0);
  std::mt19937 random(7);  // NOLINT(cert-msc51-cpp): the same each time
  for (const std::string form : {"newc", "crc", "odc", "bin"}) {
    const std::string whole = file_text(run.scratch / form);
    const std::size_t end = whole.find("TRAILER!!!") + 11;
    for (int round = 0; round < 100; ++round) {
      std::string bad = whole;
      for (int i = 0; i < 3; ++i)
        bad[random() % end] = static_cast<char>(random() % 2 == 0 ? '0' + random() % 8 : random());
      const std::string last = last_of_cpio(run, bad);
      INFO(form << " round " << round << ": " << last);
      CHECK((last == "end" || last.starts_with("fault: ")));
    }
  }
}
