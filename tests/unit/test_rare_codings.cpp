// Rare codings and methods: lzma, lzip, and what libarchive lacks of 7z.
#include <doctest/doctest.h>

#include "lzip_bytes.hpp"
#include "piece_run.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {}  // namespace

TEST_CASE("tars in lzma and lzip") {
  PieceRun run;
  REQUIRE(run.shell("seq 100000 > a; tar cf a.tar a; xz --format=lzma -k a.tar") == 0);
  const std::string tar = file_text(run.scratch / "a.tar");
  write_file(run.scratch / "a.tar.lz", lzip_of(tar));
  write_file(run.scratch / "two.tar.lz", lzip_of(tar.substr(0, 5000)) + lzip_of(tar.substr(5000)));
  run.is_by_content = false;
  for (const std::string name : {"a.tar.lzma", "a.tar.lz", "two.tar.lz"}) {
    CAPTURE(name);
    REQUIRE(run.build(run.scratch / name) == "");
    CHECK(run.kind == "tar" + name.substr(name.rfind('.')));
    CHECK(run.note == "");
    CHECK(run.shell("cmp a " + run.out("a")) == 0);
    const std::string whole = file_text(run.scratch / name);
    const std::string cut = "cut" + name.substr(name.find('.'));
    write_file(run.scratch / cut, whole.substr(0, whole.size() - 5));
    CHECK(has(run.build(run.scratch / cut), ": cut off after "));
    std::string bad = whole;
    bad[whole.size() / 2] = static_cast<char>(bad[whole.size() / 2] ^ 1);
    write_file(run.scratch / cut, bad);
    CHECK(has(run.build(run.scratch / cut), "damaged"));
  }
  std::string huge = lzip_of(tar);
  huge[5] = '\x1d';  // a dictionary of 512 MiB
  write_file(run.scratch / "a.tar.lz", huge);
  CHECK(has(run.build(run.scratch / "a.tar.lz"), "its dictionary is too large"));
}

TEST_CASE("methods of 7z that libarchive lacks are not called damage") {
  PieceRun run;
  const std::string zip = seven_zip();
  REQUIRE(run.shell("cp /bin/ls ls; " + zip + " a -m0=Deflate64 d.7z ls > /dev/null") == 0);
  std::vector<std::string> names = {"d.7z"};
  for (const std::string filter : {"ARM64", "RISCV"}) {
    if (run.shell(zip + " a -m0=" + filter + " -m1=LZMA2 " + filter + ".7z ls > /dev/null 2>&1") ==
        0)
      names.push_back(filter + ".7z");
  }
  for (const std::string& name : names) {
    CAPTURE(name);
    const std::string fault = run.build(run.scratch / name);
    if (fault.empty()) continue;  // a newer libarchive
    CHECK(has(fault, "uses a method of 7z that is not supported"));
    CHECK_FALSE(has(fault, "damaged"));
  }
}
