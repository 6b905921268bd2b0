// Attack (size lies): a zip member tells of other sizes than its data have, so that more is written
// than was admitted, or memory is taken for what never comes.
#include <doctest/doctest.h>

#include "../unit/piece_run.hpp"
#include "../unit/zip_file.hpp"

using namespace nodestage;
using zip_file::Member;
using zip_file::packed;
using zip_file::stored;

namespace {

// The fault of a member of `text` that tells of `size`; what is there of it is not longer than
// that.
std::string fault_of(PieceRun& run, Member member, std::uint64_t size) {
  member.told.size = member.local.size = size;
  write_file(run.scratch / "lie.zip", zip_file::zip({member}));
  const std::string fault = run.build("lie.zip");
  if (std::filesystem::exists(run.out("n"))) {
    CHECK(std::filesystem::file_size(run.out("n")) <= size);
  }
  return fault;
}

// The decoder may notice it first, and then has words of its own.
bool is_refused(const std::string& fault) {
  return fault.find("damaged or cut off: ") != std::string::npos;
}

}  // namespace

TEST_CASE("data that unpack to more than was told end there") {
  PieceRun run;
  // At once, in blocks, and in blocks by the parser's thread.
  for (const std::size_t size : {std::size_t{5000}, std::size_t{3} << 20, std::size_t{40} << 20}) {
    const std::string zeros(size, '\0');
    for (const std::uint64_t told : {std::uint64_t{0}, std::uint64_t{1}, size / 2, size - 1}) {
      CAPTURE(told);
      CHECK(is_refused(fault_of(run, packed("n", zeros), told)));
      run.drop();
    }
  }
  CHECK(is_refused(fault_of(run, stored("n", "12345678"), 7)));
}

TEST_CASE("data that come to less than was told are no file") {
  PieceRun run;
  for (const std::uint64_t told : {6ULL, 3ULL << 20, 100ULL << 20, 0xfffffffeULL}) {
    CAPTURE(told);
    CHECK(is_refused(fault_of(run, packed("n", "12345"), told)));
    run.drop();
    CHECK(is_refused(fault_of(run, stored("n", "12345"), told)));
    run.drop();
  }
}

TEST_CASE("64-bit sizes beyond all files and numbers") {
  PieceRun run;
  for (const std::uint64_t told : {1ULL << 40, 1ULL << 63, ~0ULL}) {
    CAPTURE(told);
    Member member = packed("n", "12345");
    member.told.size = member.local.size = 0xffffffff;
    const std::string wide = zip_file::little(told, 8);
    member.told.extra = zip_file::little(1, 2) + zip_file::little(8, 2) + wide;
    member.local.extra = zip_file::little(1, 2) + zip_file::little(16, 2) + wide + wide;
    write_file(run.scratch / "lie.zip", zip_file::zip({member}));
    CHECK(run.build("lie.zip") != "");
    // The packed size: with the header it wraps around.
    member.told.packed = 0xffffffff;
    member.told.extra = zip_file::little(1, 2) + zip_file::little(16, 2) + wide + wide;
    write_file(run.scratch / "lie.zip", zip_file::zip({member}));
    CHECK(run.build("lie.zip").find("overlaps") != std::string::npos);
  }
}

TEST_CASE("an end record that tells of more than there is") {
  PieceRun run;
  const std::string good = zip_file::zip({stored("n", "12345")});
  const std::size_t end = good.size() - 22;
  for (const std::size_t field : {12U, 16U}) {  // size and offset of the directory
    for (const std::uint64_t told : {0x7fffffffULL, 0xffffffffULL, 200ULL}) {
      std::string bad = good;
      bad.replace(end + field, 4, zip_file::little(told, 4));
      write_file(run.scratch / "lie.zip", bad);
      const std::string fault = run.build("lie.zip");
      INFO(fault);
      // A wrong offset is put right: that of a self-extractor is, too, when it is too small.
      CHECK(fault.find("cut off at") != std::string::npos);
    }
  }
}
