// Attack (zip bomb by overlap): many members of the directory share the same data, so that a small
// file unpacks to far more than any compression could make of it.
#include <doctest/doctest.h>

#include "../unit/piece_run.hpp"
#include "../unit/texts.hpp"
#include "../unit/zip_file.hpp"

using namespace nodestage;
using zip_file::Member;
using zip_file::packed;

namespace {

// Staged: the fault, and nothing was written.
std::string fault_of(PieceRun& run, const std::vector<Member>& members) {
  write_file(run.scratch / "bomb.zip", zip_file::zip(members));
  const std::string fault = run.build("bomb.zip");
  CHECK((!std::filesystem::exists(run.out()) || std::filesystem::is_empty(run.out())));
  return fault;
}

Member at(Member member, std::uint64_t offset) {
  member.offset = offset;
  return member;
}

const std::string k_zeros(100'000, '\0');

}  // namespace

TEST_CASE("members at one place are refused before anything is written") {
  PieceRun run;
  const Member kernel = packed("a", k_zeros);
  std::vector<Member> members{kernel};
  for (int i = 0; i < 100; ++i) members.push_back(at(kernel, 0));
  CHECK(has(fault_of(run, members), "entry 'a' overlaps entry 'a'"));
}

TEST_CASE("a member whose data hold the next member's header is refused") {
  PieceRun run;
  // The first one's stored data are the second member, header and all.
  const Member inner = packed("b", k_zeros);
  const std::string inner_bytes =
      "PK\3\4" + zip_file::little(20, 2) + inner.local.middle() + inner.local.name + inner.data;
  const Member outer = zip_file::stored("a", inner_bytes);
  Member hidden = at(inner, 31);  // right behind a's header
  hidden.data = "";
  CHECK(has(fault_of(run, {outer, hidden}), "entry 'a' overlaps entry 'b'"));
}

TEST_CASE("a member that reaches into the directory, or beyond the file, is refused") {
  PieceRun run;
  Member member = packed("a", k_zeros);
  for (const std::uint64_t packed_size : {member.data.size() + 1, std::size_t{0xfffffffe}}) {
    member.told.packed = member.local.packed = packed_size;
    CHECK(has(fault_of(run, {member}), "entry 'a' overlaps the archive's directory"));
  }
}

TEST_CASE("long extra fields in a member's own header push its data over the next one: refused") {
  PieceRun run;
  Member member = packed("a", k_zeros);
  member.local.extra = std::string(40, 'x');
  member.data.resize(member.data.size() - 20);  // the directory sees no overlap
  write_file(run.scratch / "bomb.zip", zip_file::zip({member, packed("b", k_zeros)}));
  const std::string fault = run.build("bomb.zip");
  CHECK(has(fault, "data overlap what follows them"));
}
