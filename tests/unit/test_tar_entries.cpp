// Our own reader of tar, beside libarchive's and alone with what is damaged.
#include <doctest/doctest.h>

#include <clocale>
#include <random>

#include "daemon/worker/archive/archive_entries.hpp"
#include "daemon/worker/archive/tar_header.hpp"
#include "entry_lines.hpp"
#include "piece_run.hpp"

using namespace nodestage;

namespace {

enum class TarReader { ours, libarchive };

// All that a reader tells of a tar, a line for each entry; the last one is "end" or the fault.
std::vector<std::string> read_all_of(const std::string& path, TarReader reader) {
  std::setlocale(LC_ALL, "C");  // in another one, libarchive converts names
  return lines_of(path, [reader](Source& source, Decoder& decoder) {
    return reader == TarReader::ours ? Result<std::unique_ptr<Entries>>(open_tar_entries(decoder))
                                     : open_file_entries(Container::tar, source);
  });
}

void check_agreement(const std::string& path, const std::string& how) {
  INFO(how);
  const auto ours = read_all_of(path, TarReader::ours);
  const auto others = read_all_of(path, TarReader::libarchive);
  CHECK(ours.back() == "end");
  CHECK(ours.size() > 2);
  CHECK(ours.size() == others.size());
  for (std::size_t i = 0; i < std::min(ours.size(), others.size()); ++i)
    CHECK(ours[i] == others[i]);
}

constexpr const char* k_tar_tree =
    "mkdir -p t/sub/empty && cd t && echo one > one && : > nothing && seq 30000 > numbers && "
    "ln one hard && ln -s one soft && mkfifo pipe && chmod 4750 one && chmod 1777 sub && "
    "l=$(printf 'l%.0s' $(seq 90)) && mkdir -p $l/$l && echo deep > $l/$l/$l && "
    "ln -s $l/$l/$l$l long && ln $l/$l/$l $l/hard && echo x > $'bad\\xff name' && "
    "echo y > $'nfc-\\xc3\\xa9' && touch -hd '1969-12-31 22:00:00' nothing && "
    "touch -d '2033-05-06 07:08:09.123456789' numbers && touch -d '2100-01-01' soft && "
    "truncate -s 3M holes && echo a | dd of=holes bs=1M seek=1 conv=notrunc status=none && "
    "for i in $(seq 60); do echo $i | dd of=holes2 bs=16K seek=$i conv=notrunc status=none; done; "
    "truncate -s 2M allhole; cd ..";

// An octal number in a header, and the checksum that goes with it.
void set_number(std::string& archive, std::size_t at, const std::string& value) {
  archive.replace(at, value.size(), value);
}

void set_checksum(std::string& archive, std::size_t header) {
  archive.replace(header + 148, 8, "        ");
  unsigned sum = 0;
  for (std::size_t i = 0; i < k_tar_block; ++i)
    sum += static_cast<unsigned char>(archive[header + i]);
  char text[8];
  std::snprintf(text, sizeof text, "%06o", sum);
  archive.replace(header + 148, 8, std::string(text, 7) + " ");
}

std::string ustar_of(const PieceRun& run, const std::string& make) {
  run.prepare(make + "; tar --format=ustar -cf s.tar f");
  return file_text(run.scratch / "s.tar");
}

std::string last_of(const PieceRun& run, const std::string& archive) {
  write_file(run.scratch / "a.tar", archive);
  return read_all_of(run.scratch / "a.tar", TarReader::ours).back();
}

}  // namespace

TEST_CASE("our tar reader agrees with libarchive's on every writer's dialects") {
  PieceRun run;
  write_file(run.scratch / "make", k_tar_tree);
  run.prepare("bash make");
  // Some dialects cannot hold all of these names: the rest is packed all the same.
  for (const std::string format : {"v7", "oldgnu", "gnu", "ustar", "posix"}) {
    for (const std::string options : {"", "-S", "-V label", "--listed-incremental=/dev/null"}) {
      if (!options.empty() && (format == "v7" || format == "ustar")) continue;
      const std::string how = "tar --format=" + format + " " + options;
      static_cast<void>(run.shell(how + " -cf x.tar t 2>/dev/null"));
      check_agreement(run.scratch / "x.tar", how);
    }
  }
  for (const std::string version : {"0.0", "0.1", "1.0"}) {
    const std::string how = "tar --format=posix --sparse-version=" + version + " -S";
    run.prepare(how + " -cf x.tar t");
    check_agreement(run.scratch / "x.tar", how);
  }
  for (const std::string format : {"ustar", "pax", "gnutar", "v7"}) {
    const std::string how = "bsdtar --format " + format;
    static_cast<void>(run.shell(how + " -cf x.tar t 2>/dev/null"));
    check_agreement(run.scratch / "x.tar", how);
  }
  for (const std::string format : {"USTAR", "GNU", "PAX"}) {
    const std::string how = "python3 tarfile " + format;
    static_cast<void>(run.shell(
        "python3 -c \"import tarfile,os\nt=tarfile.open('x.tar','w',format=tarfile." + format +
        "_FORMAT)\nfor d,s,f in os.walk('t'):\n  for n in [d]+[os.path.join(d,x) for x in f]:\n"
        "    try: t.add(n,recursive=False)\n    except (ValueError,UnicodeError): pass\n"
        "t.close()\" 2>/dev/null"));
    check_agreement(run.scratch / "x.tar", how);
  }
}

TEST_CASE("numbers of a tar header may be octal, padded or binary") {
  using namespace std::string_view_literals;
  CHECK(tar_number("0000644\0"sv) == 0644);
  CHECK(tar_number("   644 \0"sv) == 0644);
  CHECK(tar_number("77777777777"sv) == 077777777777);
  CHECK(tar_number("\0\0\0\0"sv) == 0);
  for (const std::string_view bad : {"0128"sv, "12x"sv, "-1"sv, "\x80\0\0\0\x80\0\0\0\0\0\0\0"sv,
                                     "\xff\0\0\0\0\0\0\0\0\0\0\0"sv})
    CHECK_FALSE(tar_number(bad));
  CHECK_FALSE(
      tar_number("\0"
                 "644"sv));
  CHECK(tar_number("\x80\0\0\0\0\0\0\0\0\0\x01\x02"sv) == 258);
  CHECK(tar_number("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe"sv) == -2);
  CHECK(tar_number("\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff"sv) == INT64_MAX);
}

TEST_CASE("times before 1970 with a fraction, and a global header, are as GNU tar takes them") {
  PieceRun run(
      "python3 -c \"import tarfile,io\n"
      "t=tarfile.open('x.tar','w',format=tarfile.PAX_FORMAT,pax_headers={'mtime':'77.5'})\n"
      "for n,h in (('a',{'mtime':'-1.25'}),('b',{}),('c',{'mtime':'5.000000001'})):\n"
      "  i=tarfile.TarInfo(n); i.mtime=1; i.pax_headers=h; t.addfile(i)\nt.close()\"; "
      "mkdir ref; tar --warning=no-timestamp -xf x.tar -C ref");
  REQUIRE(run.build("x.tar") == "");
  CHECK(run.shell("test \"$(cd ref; stat -c %.9Y a b c)\" = \"$(cd " + run.out() +
                  "; stat -c %.9Y a b c)\"") == 0);
}

TEST_CASE("a tar that is cut off anywhere is told to be") {
  PieceRun run(
      "l=$(printf 'l%.0s' $(seq 120)); mkdir t; echo x > t/$l; ln t/$l t/h; "
      "ln -s $l t/s; truncate -s 1M t/hole; "
      "for i in 1 2 3 4 5 6; do echo $i | dd of=t/hole bs=64K seek=$i conv=notrunc "
      "status=none; done; "
      "tar --format=gnu -Scf gnu.tar t; tar --format=posix -Scf pax.tar t");
  for (const std::string name : {"gnu.tar", "pax.tar"}) {
    const std::string whole = file_text(run.scratch / name);
    const std::size_t end = (whole.find_last_not_of('\0') / k_tar_block + 1) * k_tar_block;
    CHECK(last_of(run, whole.substr(0, end + k_tar_block)) == "end");
    for (std::size_t cut = k_tar_block; cut <= end + 100;
         cut += cut % k_tar_block == 0 ? std::size_t{100} : std::size_t{412}) {
      const std::string last = last_of(run, whole.substr(0, cut));
      INFO(name << " cut at " << cut << ": " << last);
      CHECK(has(last, ": cut off after "));
    }
  }
}

TEST_CASE("a tar without its end is one for who says so, if its last member is whole") {
  PieceRun run("mkdir t; echo x > t/x; echo y > t/y; tar cf x.tar t");
  const std::string whole = file_text(run.scratch / "x.tar");
  const std::size_t end = (whole.find_last_not_of('\0') / k_tar_block + 1) * k_tar_block;
  write_file(run.scratch / "endless.tar", whole.substr(0, end));
  run.prepare("gzip -k endless.tar");
  for (const std::string name : {"endless.tar", "endless.tar.gz"}) {
    run.item.eof = TarEnd::required;
    const std::string fault = run.build(name);
    CHECK(has(fault, "the key eof=optional stages it"));
    CHECK(has(fault, ": cut off after "));
    run.item.eof = TarEnd::optional;
    CHECK(run.build(name) == "");
    CHECK(run.shell("diff -r t " + run.out("t")) == 0);
  }
  for (const std::size_t less : {std::size_t{1}, k_tar_block}) {
    write_file(run.scratch / "cut.tar", whole.substr(0, end - less));
    const std::string fault = run.build("cut.tar");
    CHECK(has(fault, ": cut off after "));
    CHECK_FALSE(has(fault, "eof="));
  }
}

TEST_CASE("what is damaged is not told to be cut off, whatever a decoder has given before") {
  PieceRun run(
      "mkdir d; for i in $(seq 300); do echo $i >d/$i; done; seq 400000 >d/large; "
      "tar cf x.tar d; xz -1 -k -T2 --block-size=64KiB x.tar");
  const std::string whole = file_text(run.scratch / "x.tar.xz");
  for (std::size_t at = 30; at < 500; at += 9) {
    std::string bad = whole;
    bad[at] = static_cast<char>(bad[at] ^ 4);
    write_file(run.scratch / "bad.tar.xz", bad);
    const std::string fault = run.build("bad.tar.xz");
    INFO("byte " << at << ": " << fault);
    CHECK(has(fault, "damaged"));
    CHECK_FALSE(has(fault, "before byte 0"));
  }
}

TEST_CASE("what follows the end of a tar does not matter") {
  PieceRun run;
  const std::string whole = ustar_of(run, "echo x > f");
  CHECK(last_of(run, whole + "garbage") == "end");
  CHECK(last_of(run, whole + whole) == "end");
  CHECK(last_of(run, whole.substr(0, 3 * k_tar_block)) == "end");
}

TEST_CASE("headers that lie are faults") {
  PieceRun run;
  const std::string whole = ustar_of(run, "echo x > f");
  const auto with_size = [&](const std::string& size) {
    std::string lie = whole;
    set_number(lie, 124, size);
    set_checksum(lie, 0);
    return last_of(run, lie);
  };
  CHECK(has(with_size("77777777777"), "cut off"));
  for (const std::string& size :
       {std::string("0000000x000"), std::string(12, '\xff'), "\x80" + std::string(11, '\x7f')})
    CHECK(has(with_size(size), "invalid size"));
  // A size that is too small: the file's data are then read as a header.
  const std::string small = ustar_of(run, "seq 1000 > f");
  std::string lie = small;
  set_number(lie, 124, "00000000001");
  set_checksum(lie, 0);
  CHECK(has(last_of(run, lie), "wrong checksum"));
  std::string wrong = small;
  wrong[3] = 'x';
  write_file(run.scratch / "a.tar", small.substr(0, 8 * k_tar_block + k_tar_block) + wrong);
  CHECK(has(last_of(run, wrong), "wrong checksum"));
}

TEST_CASE("extended headers that lie are faults") {
  PieceRun run;
  const std::string whole = ustar_of(run, "echo x > f");
  const auto with_records = [&](const std::string& records, const std::string& size = "") {
    std::string header = whole.substr(0, k_tar_block);
    header[156] = 'x';
    char text[16];
    std::snprintf(text, sizeof text, "%011zo", records.size());
    set_number(header, 124, size.empty() ? text : size);
    set_checksum(header, 0);
    std::string body = records;
    body.resize((records.size() + k_tar_block - 1) / k_tar_block * k_tar_block);
    return last_of(run, header + body + whole);
  };
  const std::string nine = "21 GNU.sparse.size=9\n26 GNU.sparse.numblocks=2\n";
  for (const std::string& right :
       {std::string("10 path=g\n"), "26 GNU.sparse.map=4,1,5,1\n" + nine})
    CHECK(with_records(right) == "end");
  CHECK(has(with_records("x", "77777777777"), "extended header of"));
  for (const auto& bad : std::vector<std::pair<std::string, const char*>>{
           {"11 path=g\n", "invalid record"},
           {"8 path=g\n", "invalid record"},
           {"path=g\n", "invalid record"},
           {"99999999999999999999 a=b\n", "invalid record"},
           {"11 size=-1\n", "invalid size"},
           {"27 size=9223372036854775808\n", "invalid"},
           {"12 mtime=1x\n", "invalid mtime"},
           {std::string("12 path=a\0b\n", 12), "invalid path"},
           {"22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n", "invalid map"},
           {"26 GNU.sparse.map=0,1,1,9\n29 GNU.sparse.size=1000000000\n", "invalid"},
           {"26 GNU.sparse.map=4,1,5,1\n21 GNU.sparse.size=9\n", "invalid map"},
           {"26 GNU.sparse.map=5,1,4,1\n" + nine, "invalid map"},
           {"26 GNU.sparse.map=4,1,4,1\n" + nine, "invalid map"},
           {"22 GNU.sparse.major=7\n", "unknown kind"}}) {
    CAPTURE(bad.first);
    CHECK(has(with_records(bad.first), bad.second));
  }
}

// Whatever stands in the headers: the reader comes to an end, and gives no more than it was given.
TEST_CASE("random damage below right checksums ends in a fault or the end") {
  PieceRun run(
      "l=$(printf 'l%.0s' $(seq 120)); mkdir t; echo x > t/$l; ln t/$l t/h; "
      "truncate -s 300K t/hole; echo x >> t/hole; "
      "tar --format=gnu -Scf gnu.tar t; tar --format=posix -Scf pax.tar t");
  std::mt19937 random(7);  // NOLINT(cert-msc51-cpp): the same each time
  for (const std::string name : {"gnu.tar", "pax.tar"}) {
    const std::string whole = file_text(run.scratch / name);
    const std::size_t blocks = whole.find_last_not_of('\0') / k_tar_block + 1;
    for (int round = 0; round < 300; ++round) {
      std::string bad = whole;
      for (int i = 0; i < 3; ++i) {
        const std::size_t block = random() % blocks * k_tar_block;
        const std::size_t field = random() % 3 == 0 ? 124 + random() % 12 : random() % k_tar_block;
        bad[block + field] = static_cast<char>(random() % 4 == 0 ? '0' + random() % 8 : random());
        if (TarHeaderBlock(std::as_bytes(std::span(whole)).subspan(block, k_tar_block))
                .has_right_checksum())
          set_checksum(bad, block);
      }
      const std::string last = last_of(run, bad);
      INFO(name << " round " << round << ": " << last);
      CHECK((last == "end" || last.starts_with("fault: ")));
    }
  }
}
