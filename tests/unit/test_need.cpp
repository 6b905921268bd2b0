#include <doctest/doctest.h>

#include "daemon/worker/piece/newest.hpp"
#include "piece_run.hpp"
#include "tests/unit/sizes.hpp"

using namespace nodestage;

namespace {

// Of one source, as a dataset with `item` would need it.
Need need_of(const PieceRun& run, const std::string& name) {
  RateLimit rate(-1);
  const std::atomic<bool> stop = false;
  Meter meter(rate, stop);
  auto piece = Piece::open(run.scratch / name, run.item, meter, {});
  REQUIRE(piece);
  const auto need = piece->need();
  REQUIRE(need);
  return *need;
}

bool about(std::uint64_t bytes, std::uint64_t wanted) {
  return bytes >= wanted && bytes < wanted + wanted / 10 + 64 * 1024;
}

}  // namespace

TEST_CASE("the need is known where file or format tell it") {
  PieceRun run;
  REQUIRE(run.shell("head -c 4M /dev/zero >f; mkdir d; cp f d/f; tar cf t.tar f; gzip -k t.tar; "
                    "xz -k t.tar; zstd -q t.tar; zip -qr z.zip d; head -c 100K /dev/zero | split "
                    "-b 100 -a 3 - d/s; zip -qr many.zip d") == 0);
  for (const std::string name : {"f", "t.tar", "t.tar.gz", "t.tar.xz", "t.tar.zst", "z.zip"}) {
    CAPTURE(name);
    const Need need = need_of(run, name);
    CHECK(about(need.expected.bytes, 4 * k_mib));
    CHECK(need.least.bytes == need.expected.bytes);
    CHECK(need.least.inodes >= 1);
  }
  // Each small file takes a block: 1024 of them, f, the directory, and that of the destination.
  const Need many = need_of(run, "many.zip");
  CHECK(many.expected == Amount{8 * k_mib, 1027});
  CHECK(many.least == many.expected);
}

TEST_CASE("globs count in an index; elsewhere nothing is known") {
  PieceRun run;
  REQUIRE(run.shell("head -c 1M /dev/zero >a.bin; cp a.bin b.bin; zip -q z.zip a.bin b.bin; "
                    "tar cf t.tar a.bin b.bin; mkdir d") == 0);
  run.item.include = {"a*"};
  CHECK(need_of(run, "z.zip").expected == Amount{k_mib, 2});
  CHECK(need_of(run, "t.tar").expected == Amount{});
  CHECK(need_of(run, "d").expected == Amount{});
  run.item = {};
  run.item.strip = 1;
  CHECK(need_of(run, "t.tar").expected.bytes > 2 * k_mib);
  CHECK(need_of(run, "t.tar").least == Amount{});
}

TEST_CASE("holes of sparse files need no space") {
  PieceRun run;
  REQUIRE(run.shell("truncate -s 10G holes; head -c 1M /dev/urandom >>holes; "
                    "tar cSf t.tar holes") == 0);
  CHECK(need_of(run, "holes").expected.bytes <= 2 * k_mib);
  CHECK(need_of(run, "t.tar").expected.bytes <= 2 * k_mib);
}

TEST_CASE("what a format does not tell is guessed, and at least the size of the source") {
  PieceRun run;
  REQUIRE(run.shell(
              "head -c 1M /dev/urandom >f; tar cf t.tar f; bzip2 -k t.tar; lz4 -q t.tar t.tar.lz4; "
              "7z a -bso0 s.7z f; zstd -q - <t.tar >piped.tar.zst; "
              "(head -c 1M t.tar | gzip; tail -c +1048577 t.tar | gzip) >members.tar.gz; "
              "printf 'tail of no use' | cat t.tar.bz2 - >tail.tar.bz2") == 0);
  for (const std::string name :
       {"t.tar.bz2", "t.tar.lz4", "s.7z", "piped.tar.zst", "members.tar.gz", "tail.tar.bz2"}) {
    CAPTURE(name);
    const Need need = need_of(run, name);
    CHECK(about(need.least.bytes, k_mib));
    CHECK(about(need.expected.bytes, 2 * k_mib));
  }
}
