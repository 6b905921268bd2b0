// Archives in archives: nested.
#include <doctest/doctest.h>

#include "daemon/worker/piece/piece.hpp"
#include "piece_run.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

// With a tree "want", as it is to be, and "train", in which its parts are still to be packed.
struct NestedRun : NamedRun {
  NestedRun()
      : NamedRun(
            "mkdir -p want/train/n1/d want/train/n2 train;"
            "seq 99999 > want/train/n1/1.txt; seq 5 > want/train/n1/d/2;"
            "ln -s ../1.txt want/train/n1/d/link; head -c 3M /dev/zero > want/train/n2/large;"
            "seq 7 > want/train/n2/small; seq 3 | tee train/README > want/train/README") {
    item.nested = 1;
  }

  // One file of a kind, with all of a directory; the kind is the suffix.
  void pack(const std::string& directory, const std::string& file) const {
    const std::string to = "\"$OLDPWD\"/" + file;
    const bool is_tar = !file.ends_with(".zip") && !file.ends_with(".7z");
    const std::string command = file.ends_with(".zip")  ? "zip -qry " + to + " ."
                                : file.ends_with(".7z") ? seven_zip() + " a -snl " + to + " ."
                                                        : "tar caf " + to + " .";
    prepare("cd " + directory + " && " + command + (is_tar ? "" : " > /dev/null"));
  }
  void pack_parts(const std::string& suffix) const {
    prepare("rm -f train/n*");
    pack("want/train/n1", "train/n1" + suffix);
    pack("want/train/n2", "train/n2" + suffix);
  }
  void pack_outer(const std::string& file) const {
    prepare("rm -rf " + file + " outer && mkdir outer && cp -r train outer");
    pack("outer", file);
  }
  // "" if it is as it is to be.
  std::string built(const std::string& file) {
    const std::string fault = build(file);
    if (!fault.empty()) return fault;
    return is_same("want") ? "" : "another tree";
  }
  std::string files() const {
    REQUIRE(shell("cd " + out() + " && find . ! -type d | sort | tr '\\n' ' ' > ../files") == 0);
    return file_text(scratch / "files");
  }
};

}  // namespace

TEST_CASE("an archive in an archive becomes a directory of its name, whatever both are") {
  NestedRun run;
  for (const std::string inner :
       {".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.bz2", ".tar.xz", ".zip", ".7z"}) {
    run.pack_parts(inner);
    for (const std::string outer : {"x.tar", "x.tgz", "x.tar.zst", "x.zip", "x.7z"}) {
      CAPTURE(inner);
      CAPTURE(outer);
      run.pack_outer(outer);
      CHECK(run.built(outer) == "");
      CHECK(run.note == "");
    }
  }
}

TEST_CASE("large compressed archives in an archive, decoded by several threads, are read right") {
  NestedRun run;
  run.item.nested = 2;
  run.prepare(
      "head -c 4400000 /dev/urandom > noise; rm -r want/train/n1; mkdir -p want/train/n1/in "
      "train/n1;"
      "cp noise want/train/n1/in; seq 9 > want/train/n1/in/last");
  for (const std::string inner : {".tar.gz", ".tar.zst", ".tar.bz2", ".tar.xz"}) {
    CAPTURE(inner);
    run.prepare("rm -rf mid train/n* && mkdir mid");
    run.pack("want/train/n1/in", "mid/in" + inner);
    run.pack("mid", "train/n1" + inner);
    run.pack("want/train/n2", "train/n2" + inner);
    for (const std::string outer : {"x.tar", "x.7z"}) {
      run.pack_outer(outer);
      CHECK(run.built(outer) == "");
      CHECK(run.note == "");
    }
    run.prepare("rm -f x.zip && cd train && python3 -c 'import zipfile, os\n" +
                std::string("z = zipfile.ZipFile(\"../x.zip\", \"w\", zipfile.ZIP_DEFLATED)\n") +
                "for n in os.listdir(): z.write(n, \"train/\" + n)\nz.close()'");
    CHECK(run.built("x.zip") == "");
  }
}

TEST_CASE("large compressed archives in an archive: what is cut off or followed is named") {
  NestedRun run;
  run.prepare("head -c 5M /dev/urandom > noise; tar czf good noise");
  struct Row {
    const char* how;
    const char* fault;  // "": none
    const char* note;
  };
  for (const Row& row :
       {Row{"head -c 4400000 good", "'n.tar.gz': cut off after 4.2 MiB", ""},
        Row{"cat good && xz -0c noise | head -c 2M", "'n.tar.gz': another archive (xz)", ""},
        Row{"cat good && seq 99999", "", "'n.tar.gz': bytes after the end of the archive"}}) {
    CAPTURE(row.how);
    run.prepare("{ " + std::string(row.how) + "; } > n.tar.gz && tar cf x.tar n.tar.gz");
    const std::string fault = run.build("x.tar");
    CHECK((*row.fault == '\0' ? fault == "" : has(fault, row.fault)));
    CHECK(has(run.note, row.note));
  }
}

TEST_CASE("as many levels are extracted as nested= says, and deeper archives stay files") {
  NestedRun run;
  run.prepare(
      "mkdir -p a/b/c && seq 9 > a/b/c/f && cd a/b && zip -qr ../c.zip c && cd .. && "
      "rm -r b && tar cf ../b.tar c.zip && cd .. && tar czf a.tgz b.tar && "
      "zip -q a.zip a.tgz && tar cf x.tar a.zip");
  const char* const k_files[] = {"./a.zip ", "./a/a.tgz ", "./a/a/b.tar ", "./a/a/b/c.zip ",
                                 "./a/a/b/c/c/f "};
  for (unsigned levels = 0; levels <= 4; ++levels) {
    CAPTURE(levels);
    run.item.nested = levels;
    CHECK(run.build("x.tar") == "");
    CHECK(run.files() == k_files[levels]);
  }
}

TEST_CASE("what zips within zips hold is read right, whichever reader is in the middle of one") {
  NestedRun run;
  run.item.nested = 3;
  run.prepare(
      "mkdir -p w/o/m/i w/o/m/j; seq 300000 > w/o/m/i/f; seq 9 > w/o/m/j/g;"
      "seq 200000 > w/o/m/z; seq 4 > w/o/last;"
      "(cd w/o/m/i && zip -q ../../../../i.zip f); (cd w/o/m/j && zip -q ../../../../j.zip g);"
      "mkdir m; cp w/o/m/z i.zip j.zip m; tar cf m.tar -C m i.zip z j.zip;"
      "mkdir o; mv m.tar o; cp w/o/last o; (cd o && zip -q ../o.zip m.tar last);"
      "tar cf x.tar o.zip; cp o.zip o2.zip; mkdir want2; cp -r w/o want2");
  CHECK(run.build("x.tar") == "");
  CHECK(run.shell("diff -r w " + run.out()) == 0);
  CHECK(run.build("o.zip") == "");
  CHECK(run.shell("diff -r w/o " + run.out()) == 0);
}

TEST_CASE("what is no archive by its name or its content stays a file, and links stay links") {
  NestedRun run;
  run.prepare(
      "mkdir d; seq 9 > d/a.tar; seq 9 > d/b.zip; seq 9 | gzip > d/b.tar.gz;"
      "tar cf d/data.npz -C want .; tar cf d/plain -C want .; ln -s plain d/l.tar;"
      "tar cf d/.tar -C want .; ln d/data.npz d/hard.tar; cp d/plain d/...tar;"
      "tar cf x.tar -C d a.tar b.zip b.tar.gz data.npz hard.tar plain l.tar .tar "
      "...tar; mkdir e; cp d/plain e/m.tar; ln e/m.tar e/n; tar cf y.tar -C e m.tar n");
  CHECK(run.build("x.tar") == "");
  CHECK(run.shell("cmp d/b.tar.gz " + run.out("b.tar.gz") + " && cmp d/a.tar " + run.out("a.tar") +
                  " && test -L " + run.out("l.tar")) == 0);
  CHECK(run.is_same("d"));
  CHECK(run.note ==
        "3 files are named like archives, but are not: they were copied as they are (the first is "
        "'a.tar')");
  CHECK(
      has(run.build("y.tar"),
          "y.tar: entry 'n': is a hard link to 'm.tar', which nested extracts\nMake the archive"));
}

TEST_CASE("strip=, include= and exclude= apply to the paths after extraction") {
  NestedRun run;
  run.pack_parts(".tar");
  run.pack_outer("x.tar");
  run.item.include = {"*.txt", "train/n2/small"};
  CHECK(run.build("x.tar") == "");
  CHECK(run.files() == "./train/n1/1.txt ./train/n2/small ");
  run.item.include.clear();
  run.item.exclude = {"train/n1"};
  run.item.strip = 1;
  CHECK(run.build("x.tar") == "");
  CHECK(run.files() == "./README ./n1/1.txt ./n1/d/2 ./n1/d/link ./n2/large ./n2/small ");
  run.item.strip = 2;
  run.item.exclude = {"d"};
  CHECK(run.build("x.tar") == "");
  CHECK(run.files() == "./1.txt ./large ./small ");
}

TEST_CASE("hard links of an inner archive stay within it, and a name of '..' is refused") {
  NestedRun run;
  run.prepare(
      "seq 9 > f; ln f g; tar cf i.tar f g; tar cf x.tar i.tar; cp i.tar j.tar;"
      "tar cPf up.tar --transform='s,^f,../f,' f; tar cf y.tar up.tar;"
      "tar cPf abs.tar --transform='s,^f,/etc/f,' f; tar cf z.tar abs.tar");
  CHECK(run.build("x.tar") == "");
  CHECK(run.shell("test " + run.out("i/f") + " -ef " + run.out("i/g")) == 0);
  CHECK(has(run.build("y.tar"), "y.tar: entry 'up/../f': its name contains '..'"));
  CHECK(run.build("z.tar") == "");
  CHECK(run.files() == "./abs/etc/f ");
}

TEST_CASE(
    "a member with '..' in its name is refused, one without a name in a member is its directory") {
  NestedRun run;
  run.prepare(
      "seq 9 > f; tar cf i.tar f;"
      "tar cPf x.tar --transform='s,^i,../i,' i.tar;"
      "tar cPf dot.tar --transform='s,^f,./,' f; tar cf y.tar dot.tar");
  CHECK(has(run.build("x.tar"), "entry '../i.tar': its name contains '..'"));
  CHECK(run.build("y.tar") == "");
  CHECK(run.shell("test -d " + run.out("dot") + " -a -z \"$(ls -A " + run.out("dot") + ")\"") == 0);
}

TEST_CASE("a link in the way of an inner archive's directory leads nowhere") {
  NestedRun run;
  run.prepare(
      "mkdir elsewhere d; ln -s ../../elsewhere d/n; seq 9 > f; tar cf d/n.tar f;"
      "tar cf x.tar -C d n n.tar; tar cf y.tar -C d n.tar n");
  static_cast<void>(run.build("x.tar"));
  static_cast<void>(run.build("y.tar"));
  CHECK(run.shell("test -z \"$(ls elsewhere)\"") == 0);
}

TEST_CASE("the directory of an inner archive never takes the place of a file or a link") {
  NestedRun run;
  run.prepare(
      "seq 9 > f; tar cf i.tar f; seq 5 > model; ln -s f link; tar cf model.tar f;"
      "gzip -k model.tar; zip -q model.zip f; cp i.tar link.tar; mkdir d; cp model d;"
      "tar cf d/model.tgz f; tar cf in.tar model; cp model.tar in; tar rf in.tar model.zip");
  for (const std::string members :
       {"model model.tar.gz", "model model.zip", "link link.tar", "d/model d/model.tgz"}) {
    CAPTURE(members);
    run.prepare("tar cf x.tar " + members);
    const std::string first = members.substr(0, members.find(' '));
    const std::string fault = run.build("x.tar");
    CHECK(has(fault, "/x.tar: entry '" + members.substr(first.size() + 1) +
                         "': nested extracts it to '" + first + "', but a file or link"));
    CHECK(has(fault, "exclude="));
  }
  run.item.nested = 2;
  run.prepare("tar cf x.tar in.tar");
  CHECK(has(run.build("x.tar"), "entry 'in/model.zip': nested extracts it to 'in/model'"));
  run.prepare("tar cf x.tar model.tar.gz model");
  CHECK(has(run.build("x.tar"), "has the name of a directory that the archive fills"));
  run.prepare("tar cf x.tar model model.tar.gz");
  run.item.exclude = {"model.tar.gz"};
  CHECK(run.build("x.tar") == "");
  CHECK(run.files() == "./model ");
  CHECK(run.idle_globs == "");
}

TEST_CASE("a member with an archive's name that is empty fails the source, or is left out") {
  NestedRun run;
  run.prepare(
      "mkdir d; : > d/a.tar; : > d/a.zip; : > d/a.tar.gz; head -c 20000 /dev/zero > d/b.tar;"
      "head -c 99999 /dev/zero | tee d/b.zip > d/b.tgz; seq 9 > d/f; tar cf d/c.tar -T /dev/null");
  for (const std::string member : {"a.tar", "a.zip", "a.tar.gz", "b.tar", "b.zip", "b.tgz"}) {
    for (const std::string outer : {"x.tar", "x.zip"}) {
      CAPTURE(member);
      CAPTURE(outer);
      run.item.exclude.clear();
      run.prepare("rm -rf x.* p; mkdir p; cp d/f d/" + member + " p");
      run.pack("p", outer);
      const std::string fault = run.build(outer);
      CHECK(has(fault, "/" + outer + ": entry '"));
      CHECK(has(fault, member + "': empty"));
      CHECK(has(fault, "exclude="));
      run.item.exclude = {member};
      CHECK(run.build(outer) == "");
      CHECK(run.files() == "./f ");
    }
  }
  run.item.exclude.clear();
  run.prepare("tar cf x.tar -C d c.tar f");
  CHECK(run.build("x.tar") == "");
  CHECK(run.note == "'c.tar': it has no entries");
}

TEST_CASE("an inner archive of which nothing is wanted is not opened") {
  NestedRun run;
  run.prepare(
      "mkdir d d/train d/test; seq 9 > f; tar cf d/train/a.tar f; zip -q d/test/b.zip f;"
      "zip -q d/test.zip f; head -c 3M /dev/urandom > g; zip -q -0 d/test.zip g;"
      "truncate -s -90 d/test.zip; printf '\\037\\213garbage' > d/test/c.tar.gz;"
      "tar cf x.tar -C d test.zip test train; (cd d && zip -qr ../x.zip test.zip test train)");
  struct Case {
    std::vector<std::string> include, exclude;
    std::string files;
  };
  for (const auto& one :
       {Case{{}, {"test"}, "./train/a/f "}, Case{{"train/a/*"}, {}, "./train/a/f "},
        Case{{"train/a"}, {}, "./train/a/f "}, Case{{"./train"}, {}, "./train/a/f "},
        Case{{}, {"test*", "train/a/*"}, ""}, Case{{}, {"*.zip", "*.gz"}, "./train/a/f "}}) {
    for (const std::string source : {"x.tar", "x.zip"}) {
      CAPTURE(one.files);
      run.item.include = one.include;
      run.item.exclude = one.exclude;
      CHECK(run.build(source) == "");
      CHECK(run.files() == one.files);
      CHECK(run.note == "");
    }
  }
  run.item.include = {"f"};
  run.item.exclude = {};
  CHECK(has(run.build("x.tar"), "entry 'test.zip': cut off"));
}

TEST_CASE("a zip after another program is extracted, and a checkpoint named like a zip is not") {
  NestedRun run;
  run.prepare(
      "mkdir d model d/i; seq 9 > d/i/f; (cd d/i && zip -q ../../i.zip f);"
      "{ seq 9999; cat i.zip; } > d/i.zip; for f in data.pkl version data; do seq 99 > model/$f; "
      "done; zip -q -0 d/model.zip model/data.pkl model/version model/data;"
      "seq 99999 > d/no.zip; tar cf x.tar -C d model.zip i.zip no.zip; rm d/i.zip;"
      "(cd d && zip -q ../x.zip model.zip no.zip)");
  CHECK(run.build("x.tar") == "");
  CHECK(run.shell("diff -r d " + run.out()) == 0);
  CHECK(has(run.note, "2 files are named like archives, but are not"));
  CHECK(run.build("x.zip") == "");
  CHECK(run.files() == "./model.zip ./no.zip ");
  CHECK(run.shell("cmp d/no.zip " + run.out("no.zip") + " && cmp d/model.zip " +
                  run.out("model.zip")) == 0);
}

TEST_CASE("two members that give one directory unite there") {
  NestedRun run;
  run.prepare(
      "seq 1 > a; seq 2 > b; tar cf n.tar a; tar cf n.tar.gz a b; zip -q n.zip b; seq 3 > b;"
      "zip -q n.zip b; tar cf x.tar n.tar n.tar.gz n.zip");
  CHECK(run.build("x.tar") == "");
  CHECK(run.files() == "./n/a ./n/b ");
  CHECK(run.shell("cmp b " + run.out("n/b")) == 0);
  CHECK(run.note ==
        "'n.tar.gz' became the directory of another archive (and so did 1 more): of files with "
        "one name, the last is there");
}

TEST_CASE("members of which strip= leaves no directory unite, too, and those with one do not") {
  NestedRun run;
  run.prepare(
      "mkdir d; for i in 1 2 3; do echo $i > 1.png; echo $i > n$i.png; tar cf d/n$i.tar 1.png "
      "n$i.png; done; tar cf x.tar -C d n1.tar n2.tar n3.tar; tar cf y.tar d; rm [1n]*.png");
  run.item.strip = 1;
  CHECK(run.build("x.tar") == "");
  CHECK(run.files() == "./1.png ./n1.png ./n2.png ./n3.png ");
  CHECK(run.shell("grep -qx 3 " + run.out("1.png")) == 0);
  CHECK(run.note ==
        "'n2.tar' became the directory of another archive (and so did 1 more): of files with one "
        "name, the last is there");
  CHECK(run.build("y.tar") == "");
  CHECK(run.files() == "./n1/1.png ./n1/n1.png ./n2/1.png ./n2/n2.png ./n3/1.png ./n3/n3.png ");
  CHECK(run.note == "");
}

TEST_CASE("an inner archive that is damaged fails the source, and the fault has both names") {
  NestedRun run;
  run.prepare(
      "seq 99999 > f; seq 99998 > g; tar cf t.tar f g; gzip -k t.tar; zip -q t.zip f g;"
      "xz -k t.tar; " +
      seven_zip() + " a t.7z f g > /dev/null");
  struct Case {
    std::string file, damage, fault;
  };
  for (const auto& one :
       {Case{"t.tar", "truncate -s 700000", "cut off after"},
        Case{"t.tar.gz", "truncate -s 90000", "cut off after"},
        Case{"t.tar.gz", "sh -c 'printf xxxxxxxx | dd of=$0 seek=90000 bs=1 conv=notrunc' ", ""},
        Case{"t.tar.xz", "truncate -s 5000", "cut off after"},
        Case{"t.zip", "truncate -s 90000", "cut off"},
        Case{"t.zip", "sh -c 'printf xxxxxxxx | dd of=$0 seek=90000 bs=1 conv=notrunc' ", ""},
        Case{"t.7z", "truncate -s 5000", ""}}) {
    run.prepare("rm -rf d; mkdir d; cp " + one.file + " d; " + one.damage + " d/" + one.file);
    for (const std::string outer : {"x.tar", "x.zip"}) {
      CAPTURE(one.file);
      CAPTURE(outer);
      run.prepare("rm -f x.*");
      run.pack("d", outer);
      const std::string fault = run.build(outer);
      CHECK(has(fault, "/" + outer + ": entry '"));
      CHECK(has(fault, one.file + "': "));
      CHECK(has(fault, one.fault));
      CHECK(has(fault, "Take that member out of the archive"));
      CHECK_FALSE(has(fault, "(entry "));
    }
  }
}

TEST_CASE("the advice for an inner archive stays, without the command that names it") {
  NestedRun run;
  run.prepare(
      "seq 99999 > f; tar cf t.tar f; truncate -s 589824 t.tar; zip -q t.zip f; zip -qP x p.zip f;"
      "cat t.zip t.zip > two.zip; truncate -s -9 t.zip");
  struct Case {
    std::string file, advice;
  };
  for (const auto& one : {Case{"t.tar", "the key eof=optional stages it. Take that member out"},
                          Case{"t.zip", "or a time limit? Take that member out"},
                          Case{"two.zip", "\nTake that member out"},
                          Case{"p.zip", "Make it again without a password"}}) {
    CAPTURE(one.file);
    run.prepare("tar cf x.tar " + one.file);
    const std::string fault = run.build("x.tar");
    CHECK(has(fault, one.advice));
    CHECK_FALSE(has(fault, "Test it with"));
    CHECK_FALSE(has(fault, "Compare it"));
  }
}

TEST_CASE("an outer archive that is cut off within an inner one is named alone") {
  NestedRun run;
  run.pack_parts(".tar");
  run.pack_outer("x.tar");
  run.prepare("truncate -s 200000 x.tar");
  const std::string fault = run.build("x.tar");
  CHECK(has(fault, "/x.tar: cut off after"));
  CHECK_FALSE(has(fault, "n1.tar'"));
}

TEST_CASE("a hole in a member, and too many inner archives, meet the limits") {
  NestedRun run;
  run.prepare("rm -rf d; mkdir d; truncate -s 8T d/holes.tar; tar cSf y.tar -C d holes.tar");
  CHECK(has(run.build("y.tar"), "y.tar: entry 'holes.tar': it has more than 1.0 GiB of holes"));
  run.prepare(
      "rm -rf d; mkdir d; tar cf e.tar -T /dev/null; for i in $(seq 50); do cp e.tar "
      "d/$i.tar; done; tar cf z.tar -C d .");
  run.rules.max_entries = 40;
  CHECK(has(run.build("z.tar"), "has more than 40 entries"));
  run.rules.max_entries = 60;
  CHECK(run.build("z.tar") == "");
  CHECK(run.shell("test $(ls " + run.out() + " | wc -l) = 50") == 0);
}

TEST_CASE("a member with holes is extracted, too") {
  NestedRun run;
  run.prepare(
      "mkdir d i; seq 9 > i/a; truncate -s 3M i/h; seq 8 >> i/h; tar cf d/i.tar i;"
      "fallocate -d d/i.tar 2> /dev/null || :; tar cSf x.tar -C d i.tar");
  CHECK(run.build("x.tar") == "");
  CHECK(run.shell("diff -r i " + run.out("i/i")) == 0);
}

TEST_CASE("many small compressed archives need no more memory than one") {
  NestedRun run;
  run.prepare(
      "mkdir d; seq 9 > f; tar czf d/0.tgz f; for i in $(seq 300); do cp d/0.tgz d/$i.tgz; "
      "done; tar cf x.tar -C d .; zip -qr x.zip d");
  for (const std::string source : {"x.tar", "x.zip"}) {
    CHECK(run.build(source) == "");
    CHECK(run.shell("test $(find " + run.out() + " -name f | wc -l) = 301") == 0);
  }
}

TEST_CASE("without the key, a note counts the archives where most files are some") {
  NestedRun run;
  run.item.nested = 0;
  run.pack_parts(".tar");
  run.pack_outer("x.tar");
  CHECK(run.build("x.tar") == "");
  CHECK(run.note == "2 of its 3 files are named like archives; nested extracts them");
  run.item.include = {"train"};
  CHECK(run.build("x.tar") == "");
  CHECK(run.note == "");
  run.item.include.clear();
  run.prepare("seq 1 | tee train/a > train/b");
  run.pack_outer("x.zip");
  CHECK(run.build("x.zip") == "");
  CHECK(run.note == "");
  run.prepare("tar cf one.tar train/n1.tar");
  CHECK(run.build("one.tar") == "");
  CHECK(run.note == "its only file is named like an archive; nested extracts it");
  run.prepare("seq 1 > model.pth.tar; tar cf one.tar model.pth.tar");
  CHECK(run.build("one.tar") == "");
  CHECK(run.note == "");
}

TEST_CASE("nested has no meaning for a directory or a file, and that is noted") {
  NestedRun run;
  CHECK(run.build("want") == "");
  CHECK(has(run.note, "nested has no meaning for a directory"));
  CHECK(run.build("train/README") == "");
  CHECK(run.note == "nested has a meaning for archives only");
}

TEST_CASE("a copy of an inner zip is counted as space, and is gone at the end") {
  NestedRun run;
  run.pack_parts(".zip");
  run.pack_outer("x.tar");
  CHECK(run.built("x.tar") == "");
  CHECK(run.shell("test -z \"$(find . -name '.nodestage*')\"") == 0);
  run.leave_free = std::uint64_t{1} << 62;
  CHECK(has(run.build("x.tar"), "of local disk, but node n1 has"));
}

TEST_CASE("the copy of an inner zip takes no memory after its end") {
  NestedRun run;
  run.prepare(
      "head -c 20M /dev/urandom > big; seq 9 > f; zip -q -0 a.zip big f; cp a.zip b.zip;"
      "mv big rest; tar cf x.tar a.zip b.zip rest");
  run.item.exclude = {"big"};
  run.memory = {std::uint64_t{30} << 20, 50, std::uint64_t{60} << 20};
  CHECK(run.build("x.tar") == "");
  CHECK(run.files() == "./a/f ./b/f ./rest ");
  run.memory.most = std::uint64_t{15} << 20;
  CHECK(has(run.build("x.tar"), "of memory, but in=memory may take"));
}
