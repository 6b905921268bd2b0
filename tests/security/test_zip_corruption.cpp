// Attack (header corruption): a zip file whose bytes were changed, moved, cut and repeated
// anywhere. It fails with a fault that names it, or what it holds is as its checksums say; nothing
// but below the destination comes of it, and no more than the directory tells of.
#include <doctest/doctest.h>

#include "../unit/piece_run.hpp"
#include "../unit/zip_file.hpp"
#include "mutations.hpp"

using namespace nodestage;
using zip_file::little;
using zip_file::Member;
using zip_file::packed;
using zip_file::stored;

namespace {

std::string good_zip() {
  std::vector<Member> members{stored("d/one", "first"),
                              packed("d/two", std::string(3000, 'x')),
                              packed("three", std::string(70'000, '\0')),
                              stored("link", "d/one"),
                              stored("empty", ""),
                              stored("dir/", "")};
  members[3].attributes = 0120777U << 16;
  members[1].told.extra = members[1].local.extra = "UT" + little(5, 2) + '\1' + little(1000, 4);
  members[2].told.size = members[2].local.size = 0xffffffff;
  members[2].told.extra = little(1, 2) + little(8, 2) + little(70'000, 8);
  members[2].local.extra = little(1, 2) + little(8, 2) + little(70'000, 8);
  return zip_file::zip(members);
}

}  // namespace

TEST_CASE("no mutation of a zip file does harm") {
  PieceRun run;
  const std::string good = good_zip();
  write_file(run.scratch / "x.zip", good);
  REQUIRE(run.build("x.zip") == "");
  run.drop();
  Mutations mutations(20261121, {"PK\1\2", "PK\3\4", "PK\5\6", "PK\6\6", "PK\6\7", "../", "/",
                                 std::string(4, '\xff'), std::string(8, '\xff'),
                                 std::string(4, '\0'), "\1", "\x08", "d/one", "link/"});
  unsigned whole = 0;
  for (int i = 0; i < 1500; ++i) {
    CAPTURE(i);
    const std::string bad = mutations.of(good);
    write_file(run.scratch / "x.zip", bad);
    const std::string fault = run.build("x.zip");
    whole += fault.empty() ? 1U : 0U;
    if (run.kind == "zip" && !fault.empty()) {
      CHECK(fault.find("x.zip") != std::string::npos);
      CHECK(fault.find('\n') != std::string::npos);
    }
    CHECK(std::distance(std::filesystem::directory_iterator(run.scratch.path()), {}) <= 2);
    if (std::filesystem::exists(run.out("three"))) {
      CHECK(std::filesystem::file_size(run.out("three")) <= 70'000);
    }
    run.drop();
  }
  CHECK(whole < 1500);
  CHECK(whole > 0);  // the mutations reach what is behind the first checks
}
