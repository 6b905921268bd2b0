// What a source is by its name and by its content: extracted, copied, or refused.
#include <doctest/doctest.h>

#include "piece_run.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

// Builds a file that stays as it is.
void check_copied(NamedRun& run, const std::string& name) {
  CAPTURE(name);
  CHECK(run.build(name) == "");
  CHECK(run.kind == "file");
  CHECK(run.name == name);
  CHECK(run.shell("cmp " + name + " " + run.out()) == 0);
}

}  // namespace

TEST_CASE("a checkpoint is copied, whatever its name is") {
  NamedRun run(
      "mkdir a; echo 1 > a/data.pkl; echo 3 > a/version; zip -q0r z.pth.tar a; "
      "zip -q0 model.zip a/data.pkl a/version; printf '\\200\\002}q' > p.pth.tar; "
      "printf '\\200\\004\\225' > n.tar; tar cf t.pth.tar a; rm a/version; "
      "zip -q0r x.zip a");
  for (const std::string name : {"z.pth.tar", "p.pth.tar", "n.tar", "model.zip"}) {
    CAPTURE(name);
    check_copied(run, name);
    CHECK(run.note.starts_with("copied as it is: its content is a checkpoint ("));
  }
  for (const std::string name : {"t.pth.tar", "x.zip"}) {
    CAPTURE(name);
    CHECK(run.build(name) == "");
    CHECK(run.shell("[ -e " + run.out("a/data.pkl") + " ]") == 0);
  }
  run.item.extract = Extract::yes;
  CHECK(run.build("z.pth.tar") == "");
  CHECK(run.kind == "zip");
}

TEST_CASE("what is no archive is copied as it is") {
  NamedRun run(
      "seq 1000 > x.csv; gzip -k x.csv; : > empty; truncate -s 100K zeros; "
      "printf '\\037\\213\\010broken' > odd.gz; zip -q w.npz x.csv; zip -q W.DOCX "
      "x.csv; zip -q z.zip x.csv; "
      "gzip z.zip");
  for (const std::string name :
       {"x.csv", "x.csv.gz", "empty", "zeros", "odd.gz", "w.npz", "W.DOCX", "z.zip.gz"}) {
    CAPTURE(name);
    check_copied(run, name);
    struct stat from {};
    REQUIRE(::stat((run.scratch / name).c_str(), &from) == 0);
    CHECK(run.bytes_read == static_cast<std::uint64_t>(from.st_size));
  }
  run.build("x.csv.gz");
  CHECK(run.note == "not an archive: copied as it is; extract=yes decompresses it");
}

TEST_CASE("an archive inside a file that is not named as one is copied, with a note") {
  NamedRun run(
      "seq 1000 > x.csv; zip -q m.zip x.csv; cp m.zip m.bin; cp m.zip model; "
      "cp m.zip m.mar; tar czf m.gz x.csv; tar cf m.pkl x.csv; tar cf m.npz x.csv; "
      "bsdtar --format=iso9660 -cf m.iso x.csv");
  for (const std::string name : {"m.bin", "model", "m.mar", "m.gz", "m.pkl", "m.npz", "m.iso"}) {
    CAPTURE(name);
    run.item.extract = Extract::automatic;
    check_copied(run, name);
    CHECK(run.note.starts_with("copied as it is: its content is an archive ("));
    CHECK(has(run.note, "extract=yes extracts it"));
    run.item.extract = Extract::yes;
    CHECK(run.build(name) == "");
    CHECK(run.kind != "file");
    CHECK(run.note == "");
    CHECK(run.shell("cmp x.csv " + run.out("x.csv")) == 0);
  }
  run.prepare("cp m.zip m.npz");
  run.item.extract = Extract::automatic;
  CHECK(run.build("m.npz") == "");
  CHECK(run.note == "");
  run.item.extract = Extract::yes;
  CHECK(has(run.build("x.csv"), "is not an archive and not compressed"));
  run.prepare("mkdir d; echo x > d/f");
  CHECK(run.build("d") == "");
  CHECK(run.note == "extract= has no meaning for a directory");
}

TEST_CASE("with extract=yes, a compressed file that is no archive becomes what is in it") {
  NamedRun run(
      "seq 300000 > x.csv; chmod 640 x.csv; touch -d 2001-02-03 x.csv; gzip -k x.csv; "
      "bzip2 -k x.csv; xz -k x.csv; zstd -q x.csv; lz4 -q x.csv x.csv.lz4; "
      "chmod 640 x.csv.lz4; touch -r x.csv x.csv.lz4; xz -k --format=lzma x.csv; "
      "cp -p x.csv.gz plain; cat x.csv.gz x.csv.gz > two.GZ; "
      "zip -q z.zip x.csv; gzip z.zip; : | gzip > empty.gz; cp x.csv.gz x.pth; gzip -c "
      "x.csv.gz > x.csv.gz.gz; tar cf - x.csv | gzip > t.gz");
  run.item.extract = Extract::yes;
  struct Row {
    const char *source, *kind, *name, *same;
  };
  for (const Row& row :
       {Row{"x.csv.gz", "gz", "x.csv", "x.csv"}, Row{"x.csv.bz2", "bz2", "x.csv", "x.csv"},
        Row{"x.csv.xz", "xz", "x.csv", "x.csv"}, Row{"x.csv.zst", "zst", "x.csv", "x.csv"},
        Row{"x.csv.lz4", "lz4", "x.csv", "x.csv"}, Row{"x.csv.lzma", "lzma", "x.csv", "x.csv"},
        Row{"plain", "gz", "plain", "x.csv"}, Row{"x.pth", "gz", "x.pth", "x.csv"},
        Row{"two.GZ", "gz", "two", "-"}, Row{"z.zip.gz", "gz", "z.zip", "-"},
        Row{"empty.gz", "gz", "empty", "/dev/null"},
        Row{"x.csv.gz.gz", "gz", "x.csv.gz", "x.csv.gz"}}) {
    CAPTURE(row.source);
    CHECK(run.build(row.source) == "");
    CHECK(run.kind == row.kind);
    CHECK(run.name == row.name);
    if (row.same != std::string("-"))
      CHECK(run.shell("cmp " + std::string(row.same) + " " + run.out()) == 0);
    CHECK(run.note == (row.name == std::string("x.csv.gz")
                           ? "it was decompressed once, and what that gave is compressed too (gzip)"
                           : ""));
    if (row.name == std::string("x.csv"))
      CHECK(run.shell("[ \"$(stat -c '%a %y' " + run.out() +
                      ")\" = \"$(stat -c '%a %y' x.csv)\" ]") == 0);
  }
  CHECK(run.build("two.GZ") == "");
  CHECK(run.shell("cat x.csv x.csv | cmp - " + run.out()) == 0);
  CHECK(run.build("z.zip.gz") == "");
  CHECK(run.shell("unzip -qt " + run.out()) == 0);
  // An archive inside is extracted as ever.
  CHECK(run.build("t.gz") == "");
  CHECK(run.kind == "tar.gz");
  CHECK(run.name == "t");
  CHECK(run.shell("cmp x.csv " + run.out("x.csv")) == 0);
  run.item.strip = 1;
  run.item.include = {"a"};
  run.item.links = Links::follow;
  CHECK(run.build("x.csv.gz") == "");
  CHECK(has(run.note,
            "it was decompressed to one file, for which strip= and include= had no meaning"));
  CHECK(has(run.note, "links= has a meaning for directories only"));
}

TEST_CASE("a compressed file that is damaged, cut off, or a part is a fault, as an archive is") {
  NamedRun run(
      "head -c 3M /dev/urandom > f; gzip -k f; xz -k f; zstd -q f; "
      "for s in gz xz zst; do head -c 2M f.$s > cut.$s; cp f.$s bad.$s; "
      "printf XXXX | dd of=bad.$s bs=1 seek=1000000 conv=notrunc status=none; done; "
      "cp cut.gz f.gz.part01; (cat f.gz; echo junk) > junk.gz; (cat f.gz; bzip2 -c f) "
      "> two.gz; echo no > no.gz; : > none.gz; printf '\037\213\010broken' > odd.gz; "
      "gzip -c f > n.tar.gz");
  run.item.extract = Extract::yes;
  for (const auto& [suffix, tool] :
       {std::pair<std::string, const char*>{".gz", "gzip"}, {".xz", "xz"}, {".zst", "zstd"}}) {
    for (const std::string name : {"cut", "bad"}) {
      const std::string file = name + suffix;
      CAPTURE(file);
      const std::string fault = run.build(file);
      CHECK(fault.starts_with(run.scratch / file + ": "));
      CHECK(has(fault, name == "cut" ? "cut off" : "damaged"));
      CHECK(has(fault, tool + std::string(" -t")));
    }
  }
  CHECK(has(run.build("f.gz.part01"), "By its name it is one part"));
  CHECK(has(run.build("two.gz"), "another archive (bz2) begins"));
  CHECK(has(run.build("no.gz"),
            "is not an archive and not compressed, and extract=yes is for such files"));
  CHECK(has(run.build("none.gz"), "empty (0 bytes)"));
  CHECK(has(run.build("odd.gz"), "odd.gz: "));
  CHECK(has(run.build("n.tar.gz"), "is named like an archive, but is not one"));
  CHECK(run.build("junk.gz") == "");
  CHECK(run.note == "bytes after the end of the compressed data were ignored");
  run.leave_free = std::uint64_t{1} << 60;
  CHECK(has(run.build("f.gz"), run.scratch / "f.gz" + ": "));
}

TEST_CASE("archives that nothing here reads are refused by their names") {
  NamedRun run(
      "echo x > d.tar.br; echo x > d.tar.lzo; echo x > D.ARJ; seq 10 > f; tar czf "
      "g.tar.br f");
  CHECK(has(run.build("d.tar.br"),
            "archives of the kind .tar.br cannot be extracted here\nExtract it once with brotli"));
  CHECK(has(run.build("d.tar.lzo"), "Extract it once with lzop"));
  CHECK(has(run.build("D.ARJ"), "archives of the kind .arj cannot"));
  run.prepare("cp d.tar.br d.part1.rar");
  CHECK(has(run.build("d.part1.rar"), "Extract it once with unrar"));
  run.prepare("bsdtar --format newc -cf c.cpio f; gzip -k c.cpio; cp c.cpio c.bin");
  const std::string cpio = run.scratch / "c.cpio";
  CHECK(has(run.build(cpio), "Make a tar of it once: mkdir c && cpio -idm -D c < " + cpio +
                                 "; nodestage pack c -o c.tar.zst"));
  CHECK(has(run.build(cpio + ".gz"),
            "mkdir c && gzip -dc " + cpio + ".gz | cpio -idm -D c; nodestage pack c"));
  CHECK(run.build("c.bin") == "");
  CHECK(run.shell("cmp c.cpio " + run.out("")) == 0);
  CHECK(run.build("g.tar.br") == "");  // whatever it is called, it is readable
  CHECK(run.kind == "tar.gz");
  run.item.extract = Extract::no;
  CHECK(run.build("d.tar.br") == "");
  CHECK(run.name == "d.tar.br");
}

TEST_CASE("a part of a split archive is always told to be one") {
  NamedRun run(
      "head -c 300K /dev/urandom > f; tar cf t.tar f; split -d -n 3 t.tar t.tar.part; "
      "split -n 3 t.tar t.tar.; gzip -k t.tar; split -d -n 3 t.tar.gz t.tgz_part-; "
      "7z a -v100k v.7z f > /dev/null; split -d -n 3 t.tar t.part; rm t.tar; "
      "zip -qs 100k s.zip f");
  for (const std::string name : {"t.tar.part00", "t.tar.part01", "t.tar.aa", "t.tar.ac",
                                 "t.tgz_part-00", "t.tgz_part-02", "v.7z.001", "v.7z.002"}) {
    CAPTURE(name);
    const std::string fault = run.build(name);
    CHECK(has(fault, "is one part of an archive in several files\nStage the parts as one file"));
    CHECK(has(fault, ",join'"));
    CHECK_FALSE(has(fault, "eof="));
  }
  CHECK(has(run.build("v.7z.002"), "--stage-dataset='" + run.scratch / "v.7z.*:v,join'"));
  run.prepare("touch v.7z");
  CHECK(has(run.build("v.7z.002"), "or " + run.scratch / "v.7z beside it, if that is the whole"));
  for (const std::string name : {"s.z01", "s.zip"}) {
    const std::string fault = run.build(name);
    CHECK(has(fault, "is one part of a zip archive in several files\nStage the parts as one"));
    CHECK(has(fault, "--stage-dataset='" + run.scratch / "s.z*:s,join'"));
  }
  run.item.extract = Extract::no;
  CHECK(run.build("t.tar.aa") == "");
  // Nothing names an archive here: it is a file, until somebody says what it is.
  run.item.extract = Extract::automatic;
  CHECK(run.build("t.part01") == "");
  CHECK(run.build("t.part00") == "");
  CHECK(has(run.note, "its content is an archive (tar)"));
  run.item.extract = Extract::yes;
  for (const std::string name : {"t.part00", "t.tar.part00"}) {
    const std::string fault = run.build(name);
    CHECK(has(fault, "Stage the parts as one file, with --stage-dataset='"));
    CHECK_FALSE(has(fault, "eof="));
  }
}

TEST_CASE("archives that cat has joined are all extracted, or the fault says what to do") {
  NamedRun run(
      "seq 1000 > a; seq 2000 > b; for f in a b; do tar cf $f.tar $f; tar czf $f.tgz $f; "
      "tar --zstd -cf $f.zst $f; zip -q $f.zip $f; 7z a $f.7z $f > /dev/null; bzip2 -k "
      "$f.tar; done; cat a.tar b.tar > c.tar; cat a.tgz b.tgz > c.tar.gz; cat a.zst b.zst > "
      "c.tar.zst; cat a.tar.bz2 b.tar.bz2 > "
      "c.tbz");
  for (const std::string name : {"c.tar", "c.tar.gz", "c.tar.zst", "c.tbz"}) {
    CAPTURE(name);
    CHECK(run.build(name) == "");
    CHECK(run.note == "2 archives, one after another, were extracted");
    CHECK(run.shell("cmp a " + run.out("a") + " && cmp b " + run.out("b")) == 0);
  }
  run.prepare(
      "cat a.zip b.zip > z.zip; cat a.7z b.7z > z.7z; cat a.tgz b.zst > z.tgz; cat a.tar "
      "b.tgz > z.tar; cat a.tar.bz2 b.zip > z.tbz; cat a.tgz "
      "b.tar > y.tgz");
  CHECK(has(run.build("z.zip"), "two or more zip archives, one after another"));
  // The directory of the first one is where the second one's would be in a file of its own.
  run.prepare("cat a.zip a.zip > twice.zip");
  CHECK(has(run.build("twice.zip"), "two or more zip archives, one after another"));
  CHECK(has(run.build("z.7z"), "another archive (7z) begins at byte "));
  CHECK(has(run.build("z.tgz"), "another archive (zst) begins at byte "));
  CHECK(has(run.build("y.tgz"), "another archive (tar) begins at byte "));
  CHECK(has(run.build("z.tbz"), "another archive (zip) begins at byte "));
  CHECK(has(run.build("z.tar"), "another archive (gz) begins"));
}

TEST_CASE("zeros before, in, and after a tar") {
  NamedRun run(
      "seq 1000 > a; tar cf a.tar a; head -c 512 /dev/zero | cat - a.tar > first.tar; "
      "gzip -k first.tar; (cat a.tar; echo junk) > junk.tar; head -c 8K /dev/zero | cat "
      "- a > lost.tar; cp a b; cp a c; tar cf one.tar a b; cp one.tar two.tar; tar rf two.tar "
      "c; dd if=/dev/zero of=one.tar bs=512 seek=9 count=1 conv=notrunc status=none; dd "
      "if=/dev/zero of=two.tar bs=512 seek=9 count=2 conv=notrunc status=none; head -c 10K "
      "/dev/zero > none.tar; head -c 10K "
      "/dev/zero > none.zip");
  for (const std::string name : {"first.tar", "first.tar.gz"}) {
    CHECK(run.build(name) == "");
    CHECK(run.note == "zeros before the first entry were skipped");
    CHECK(run.shell("cmp a " + run.out("a")) == 0);
  }
  CHECK(run.build("junk.tar") == "");
  CHECK(run.note == "bytes after the end of the archive were ignored");
  CHECK(has(run.build("lost.tar"), "zeros, and then no tar header"));
  CHECK(has(run.build("one.tar"), "one block of zeros, and then no tar header"));
  CHECK(has(run.build("two.tar"), "more entries, after bytes that are none"));
  // Of empty files, each block is a header.
  run.prepare(
      "touch x y z; tar cf lone.tar x y z; dd if=/dev/zero of=lone.tar bs=512 seek=1 "
      "count=1 conv=notrunc status=none");
  CHECK(has(run.build("lone.tar"), "one block of zeros, and then more entries"));
  CHECK(run.build("none.tar") == "");
  CHECK(run.note == "the archive has no entries");
  CHECK(has(run.build("none.zip"), "is named like an archive, but is not one"));
}

TEST_CASE("a name that claims an archive must hold one") {
  NamedRun run(
      ": > e.tar; echo '<html>' > h.tar.gz; seq 1000 > s.zip; echo hello | gzip > "
      "g.tgz; echo '<html>' > "
      "H.ZIP");
  CHECK(has(run.build("e.tar"), "empty (0 bytes)"));
  for (const std::string name : {"h.tar.gz", "s.zip", "g.tgz", "H.ZIP"}) {
    CHECK(has(run.build(name), "is named like an archive, but is not one"));
    run.item.extract = Extract::no;
    CHECK(run.build(name) == "");
    CHECK(run.name == name);
    run.item.extract = Extract::automatic;
  }
}
