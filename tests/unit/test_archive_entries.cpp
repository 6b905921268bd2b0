#include <doctest/doctest.h>

#include <clocale>

#include "lzip_bytes.hpp"
#include "piece_run.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

constexpr const char* k_tree =
    "rm -rf t && mkdir -p t/a/b && echo one > t/a/one && seq 20000 > t/a/b/numbers && : > t/empty "
    "&& ln -s one t/a/link && head -c 3000 /dev/urandom > t/random";

// Packs the tree above.
void pack_tree(const PieceRun& run, const std::string& pack) {
  run.prepare(k_tree);
  run.prepare(pack);
}

}  // namespace

TEST_CASE("every container in every coding") {
  const std::pair<std::string, std::string> codings[] = {{"", "cat"},          {".gz", "gzip -c"},
                                                         {".bz2", "bzip2 -c"}, {".xz", "xz -0 -c"},
                                                         {".zst", "zstd -qc"}, {".lz4", "lz4 -qc"}};
  PieceRun run(k_tree);
  for (const std::string format : {"gnu", "pax", "ustar", "v7", "oldgnu"}) {
    run.prepare("tar --format=" + format + " -cf x t");
    for (const auto& coding : codings) {
      CAPTURE(format + " | " + coding.second);
      run.prepare(coding.second + " < x > y");
      REQUIRE(run.build("y") == "");
      CHECK(run.kind == "tar" + coding.first);
      CHECK(run.note == "");
      CHECK(run.is_same("t", "t"));
    }
  }
}

// libarchive writes it; its table is full and forgotten several times here.
TEST_CASE("a tar as compress(1) leaves it") {
  PieceRun run(k_tree);
  run.prepare("for i in 1 2 3; do head -c 700000 /dev/urandom; seq 200000; done > t/a/large");
  for (const std::string files : {"t/empty", "t/a/one", "t"}) {
    CAPTURE(files);
    run.prepare("bsdtar -cZf x.tar.Z " + files + " && gzip -dc < x.tar.Z | tar tf - > /dev/null");
    REQUIRE(run.build("x.tar.Z") == "");
    CHECK(run.kind == "tar.Z");
    CHECK(run.name == "x");
    CHECK(run.is_same(files, files));
  }
  const std::string whole = file_text(run.scratch / "x.tar.Z");
  for (const std::size_t size : {2UL, 3UL, 700UL, whole.size() / 2, whole.size() - 600}) {
    CAPTURE(size);
    write_file(run.scratch / "cut.tar.Z", whole.substr(0, size));
    const std::string fault = run.build("cut.tar.Z");
    CHECK(fault != "");
    if (size == whole.size() / 2) CHECK(has(fault, "cut off"));
  }
  std::string wrong = whole;
  wrong.replace(5000, 40, 40, '\xff');
  write_file(run.scratch / "wrong.tar.Z", wrong);
  CHECK(has(run.build("wrong.tar.Z"), "compress data"));
}

TEST_CASE("zip and 7z archives are extracted, whatever their options were") {
  std::setlocale(LC_ALL, "C.UTF-8");
  PieceRun run;
  for (const std::string pack :
       {"zip -qry x t", "zip -qr0y x.zip t", "rm -f x.7z; 7z a -snl x.7z t > /dev/null",
        "rm -f x.7z; 7z a -snl -ms=off x.7z t > /dev/null", "cd t; zip -qryfd - . > ../x.zip"}) {
    CAPTURE(pack);
    const bool is_zip = has(pack, "zip");
    if (has(pack, "fd -") && !zip_streams_links()) {
      MESSAGE("skipped: zip here writes no links into a pipe");
      continue;
    }
    pack_tree(run, "rm -f x.zip; " + pack);
    REQUIRE(run.build(is_zip ? "x.zip" : "x.7z") == "");
    CHECK(run.kind == (is_zip ? "zip" : "7z"));
    CHECK(run.is_same("t", pack.starts_with("cd") ? "" : "t"));
  }
}

TEST_CASE("zip files with nothing in them, with a comment, and with wide offsets") {
  PieceRun run;
  REQUIRE(
      run.shell("echo x > f; zip -q e.zip f; zip -qd e.zip f; printf 'PK\\005\\006' > n.zip; "
                "head -c 18 /dev/zero >> n.zip; zip -q c.zip f; echo 'a comment' | zip -qz c.zip; "
                "zip -qfz w.zip f; cat f | zip -q s.zip -") != -1);
  for (const std::string name : {"n.zip", "c.zip", "w.zip", "s.zip"})
    CHECK_MESSAGE(run.build(name) == "", name);
}

TEST_CASE("several members, streams and frames are one; padding is silent, junk is told") {
  PieceRun run(std::string(k_tree) + " && tar cf x.tar t && split -n 3 x.tar part.");
  for (const std::string coder : {"gzip", "bzip2", "xz", "zstd -q", "lz4 -q"}) {
    CAPTURE(coder);
    run.prepare("for p in part.a?; do " + coder + " -c < $p; done > y");
    REQUIRE(run.build("y") == "");
    CHECK(run.is_same("t", "t"));
    CHECK(run.note == "");
    run.prepare("head -c 1024 /dev/zero >> y");
    CHECK(run.build("y") == "");
    CHECK(run.note == "");
    run.prepare("echo junk >> y");
    CHECK(run.build("y") == "");
    CHECK(has(run.note, "ignored"));
  }
}

TEST_CASE("skippable frames are skipped") {
  PieceRun run;
  for (const std::string coder : {"zstd -q", "lz4 -q"}) {
    CAPTURE(coder);
    pack_tree(run, "tar cf x.tar t; { printf '\\120\\052\\115\\030\\004\\000\\000\\000abcd'; " +
                       coder +
                       " -c x.tar; printf '\\137\\052\\115\\030\\002\\000\\000\\000xy'; } > y");
    CHECK(run.build("y") == "");
    CHECK(run.note == "");
    CHECK(run.is_same("t", "t"));
  }
}

// Cuts at all of the first and last KiB, at the boundaries of blocks, and at some places between.
TEST_CASE("every cut is noticed") {
  std::setlocale(LC_ALL, "C.UTF-8");
  PieceRun run(
      "mkdir t; head -c 6000 /dev/urandom > t/one; head -c 1536 /dev/zero > t/two; "
      "echo x > t/three; mkdir t/dir; tar --format=pax -cf x.tar t; gzip -k x.tar; "
      "bzip2 -k x.tar; xz -0k x.tar; zstd -qk x.tar; lz4 -qk x.tar x.tar.lz4; "
      "zip -qr x.zip t; 7z a x.7z t >/dev/null");
  for (const std::string name :
       {"x.tar", "x.tar.gz", "x.tar.bz2", "x.tar.xz", "x.tar.zst", "x.tar.lz4", "x.zip", "x.7z"}) {
    const std::string whole = file_text(run.scratch / name);
    REQUIRE(run.build(name) == "");
    // A tar is whole with its first block of zeros; padding follows.
    std::size_t end = whole.size();
    if (name == "x.tar") end = whole.find_last_not_of('\0') / 512 * 512 + 1024;
    const std::size_t step = name.ends_with(".xz") || name.ends_with(".bz2") ? 331 : 251;
    for (std::size_t cut = 0; cut < end;
         cut += cut % 512 == 0 ? 1 : std::min(step, 512 - cut % 512)) {
      write_file(run.scratch / ("cut" + name), whole.substr(0, cut));
      const std::string fault = run.build("cut" + name);
      INFO(name << " cut at " << cut << " of " << end);
      CHECK(has(fault, "\n"));
      run.drop();
    }
  }
}

TEST_CASE("a flipped bit is noticed") {
  PieceRun run;
  pack_tree(run,
            "tar cf x.tar t; gzip -k x.tar; bzip2 -k x.tar; xz -0k x.tar; zstd -qk x.tar; "
            "lz4 -qk x.tar x.tar.lz4; zip -qr x.zip t; 7z a x.7z t > /dev/null");
  for (const std::string name :
       {"x.tar.gz", "x.tar.bz2", "x.tar.xz", "x.tar.zst", "x.tar.lz4", "x.zip", "x.7z"}) {
    const std::string whole = file_text(run.scratch / name);
    for (std::size_t i = 1; i < 8; ++i) {
      std::string bad = whole;
      bad[whole.size() * i / 8] ^= 0x10;
      write_file(run.scratch / ("bad" + name), bad);
      INFO(name << " at " << whole.size() * i / 8);
      CHECK(run.build("bad" + name) != "");
    }
  }
}

TEST_CASE("the fault of a cut file names file, place, entry and what to do") {
  PieceRun run;
  pack_tree(run, "tar czf x.tgz t && head -c 5000 x.tgz > cut.tgz");
  const std::string fault = run.build("cut.tgz");
  CHECK(fault.starts_with(run.scratch /
                          "cut.tgz: cut off after 4.9 KiB: the archive is truncated (entry t/"));
  CHECK(has(fault, "\nWas its creation"));
  CHECK(fault.ends_with("Test it with: gzip -t " + (run.scratch / "cut.tgz")));
}

TEST_CASE("a password is a fault that says so") {
  std::setlocale(LC_ALL, "C.UTF-8");
  PieceRun run;
  for (const std::string pack : {"zip -qrP secret x.zip t", "7z a -psecret x.zip t >/dev/null",
                                 "7z a -tzip -mem=AES256 -psecret x.zip t > /dev/null",
                                 "7z a -t7z -mhe -psecret x.zip t >/dev/null"}) {
    pack_tree(run, "rm -f x.zip; " + pack);
    const std::string fault = run.build("x.zip");
    INFO(pack << ": " << fault);
    CHECK(has(fault, "protected with a password"));
  }
}

TEST_CASE("names survive as bytes") {
  std::setlocale(LC_ALL, "C.UTF-8");
  PieceRun run;
  const std::string long_name(255, 'n');
  REQUIRE(run.shell(
              "mkdir -p u/" + long_name +
              " && cd u && touch $'nfd-e\\xcc\\x81' $'nfc-\\xc3\\xa9' $'bad\\xff' "
              "$'new\\nline' ' blank ' '*' '\\back' " +
              long_name + "/" + long_name +
              " && ln -s $'to\\xff e\\xcc\\x81' link && ln $'bad\\xff' $'hard-e\\xcc\\x81'") != -1);
  for (const std::string pack : {"tar --format=pax -cf x u", "tar --format=gnu -cf x u",
                                 "rm -f x.zip; LC_ALL=C.UTF-8 zip -qry x.zip u; mv x.zip x",
                                 "rm -f x.zip; zip -qry x.zip u; mv x.zip x"}) {
    CAPTURE(pack);
    run.prepare("bash -c \"" + pack + "\"");
    CHECK(run.build("x") == "");
    CHECK(run.is_same("u", "u"));
  }
}

TEST_CASE("sparse files of every kind of tar stay sparse") {
  PieceRun run(
      "mkdir s; truncate -s 30M s/hole; truncate -s 20M s/some; echo data | dd of=s/some "
      "bs=1M seek=10 conv=notrunc status=none; echo end | dd of=s/some bs=1M seek=19 "
      "conv=notrunc status=none");
  for (const std::string format :
       {"--format=gnu", "--format=pax --sparse-version=0.0", "--format=pax --sparse-version=0.1",
        "--format=pax --sparse-version=1.0"}) {
    CAPTURE(format);
    run.prepare("tar " + format + " -Scf x.tar s");
    REQUIRE(run.build("x.tar") == "");
    CHECK(run.shell("cmp s/hole " + run.out("s/hole") + " && cmp s/some " + run.out("s/some")) ==
          0);
    struct stat info {};
    REQUIRE(::stat(run.out("s/some").c_str(), &info) == 0);
    CHECK(info.st_blocks < 1000);
  }
}

// Rare codings and methods: lzma, lzip, and what libarchive lacks of 7z.

TEST_CASE("tars in lzma and lzip") {
  PieceRun run("seq 100000 > a; tar cf a.tar a; xz --format=lzma -k a.tar");
  const std::string tar = file_text(run.scratch / "a.tar");
  write_file(run.scratch / "a.tar.lz", lzip_of(tar));
  write_file(run.scratch / "two.tar.lz", lzip_of(tar.substr(0, 5000)) + lzip_of(tar.substr(5000)));
  run.is_by_content = false;
  for (const std::string name : {"a.tar.lzma", "a.tar.lz", "two.tar.lz"}) {
    CAPTURE(name);
    REQUIRE(run.build(name) == "");
    CHECK(run.kind == "tar" + name.substr(name.rfind('.')));
    CHECK(run.note == "");
    CHECK(run.shell("cmp a " + run.out("a")) == 0);
    const std::string whole = file_text(run.scratch / name);
    const std::string cut = "cut" + name.substr(name.find('.'));
    write_file(run.scratch / cut, whole.substr(0, whole.size() - 5));
    CHECK(has(run.build(cut), ": cut off after "));
    std::string bad = whole;
    bad[whole.size() / 2] = static_cast<char>(bad[whole.size() / 2] ^ 1);
    write_file(run.scratch / cut, bad);
    CHECK(has(run.build(cut), "damaged"));
  }
  std::string huge = lzip_of(tar);
  huge[5] = '\x1d';  // a dictionary of 512 MiB
  write_file(run.scratch / "a.tar.lz", huge);
  CHECK(has(run.build("a.tar.lz"), "its dictionary is too large"));
}

TEST_CASE("methods of 7z that libarchive lacks are not called damage") {
  PieceRun run;
  const std::string zip = seven_zip();
  run.prepare("cp /bin/ls ls; " + zip + " a -m0=Deflate64 d.7z ls > /dev/null");
  std::vector<std::string> names = {"d.7z"};
  for (const std::string filter : {"ARM64", "RISCV"}) {
    if (run.shell(zip + " a -m0=" + filter + " -m1=LZMA2 " + filter + ".7z ls > /dev/null 2>&1") ==
        0)
      names.push_back(filter + ".7z");
  }
  for (const std::string& name : names) {
    CAPTURE(name);
    const std::string fault = run.build(name);
    if (fault.empty()) continue;  // a newer libarchive
    CHECK(has(fault, "uses a method of 7z that is not supported"));
    CHECK_FALSE(has(fault, "damaged"));
  }
}
