#include <doctest/doctest.h>

#include "daemon/worker/piece/piece.hpp"
#include "piece_run.hpp"

using namespace nodestage;

namespace {

PieceLook look(const PieceRun& run, const std::string& name, std::chrono::milliseconds limit) {
  RateLimit rate(-1);
  const std::atomic<bool> stop = false;
  Meter meter(rate, stop);
  auto piece = Piece::open(run.scratch / name, run.item, meter, {3});
  REQUIRE(piece);
  const auto looked = piece->look(limit);
  REQUIRE(looked);
  return *looked;
}

}  // namespace

TEST_CASE("a look counts what it comes to, and writes nothing") {
  PieceRun run;
  REQUIRE(
      run.shell("mkdir d; head -c 3M /dev/zero >d/a; echo b >d/b; tar cf t.tar d; gzip -k t.tar;"
                "zip -qr z.zip d; cp d/a plain") == 0);
  for (const std::string name : {"t.tar", "t.tar.gz"}) {
    CAPTURE(name);
    const PieceLook all = look(run, name, std::chrono::seconds(60));
    CHECK(all.is_whole);
    CHECK(all.files == 2);
    CHECK(all.bytes == 3 * 1024 * 1024 + 2);
    CHECK(all.spent.count() > 0);
    CHECK(!all.index);
  }
  const PieceLook zip = look(run, "z.zip", std::chrono::seconds(60));
  REQUIRE(zip.index);
  CHECK(zip.index->files == 2);
  CHECK(zip.index->bytes == 3 * 1024 * 1024 + 2);
  CHECK(zip.index->is_plain);
  const PieceLook plain = look(run, "plain", std::chrono::seconds(60));
  CHECK(plain.is_whole);
  CHECK(plain.position == 3 * 1024 * 1024);
  CHECK(!look(run, "t.tar", std::chrono::milliseconds(0)).is_whole);
}
