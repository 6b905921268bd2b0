// Attack: the structures of a zip, 7z or tar file damaged at one place or another, so that a
// reader trusts an offset, a count or a length that is not so.
#include <algorithm>

#include "../unit/texts.hpp"
#include "attack.hpp"
#include "crafted_archives.hpp"
#include "mutations.hpp"

using namespace crafted;

namespace {

constexpr int k_rounds = 40;  // in one process each; the fuzzers try millions

// Stages damaged copies of `good`, all of them with one StageRun, as one dataset each.
void stage_damaged(const std::string& good, const std::string& suffix, std::uint32_t seed) {
  Mutations mutations(seed, {std::string(4, '\0'), "\xff\xff\xff\xff", "PK\1\2", "PK\5\6", "PK\3\4",
                             std::string("\x80\0\0\0", 4), "../", "/", "7z\xbc\xaf"});
  Attack attack;
  for (int i = 0; i < k_rounds; ++i) {
    const std::string fault = attack.stage_bytes(mutations.of(good), "damaged" + suffix);
    CAPTURE(i);
    CAPTURE(fault);
    if (!fault.empty()) CHECK(has(fault, "damaged" + suffix));
    CHECK(attack.stage.in_job("chmod -R u+rwX . && rm -rf got"));
  }
}

// The archive `name` that `command` makes of a tree t.
std::string made(const std::string& command, const std::string& name) {
  const Attack attack;
  REQUIRE(attack.stage.in_data("mkdir -p t/d && seq 300 > t/d/f && echo x > t/g && ln -s g t/l") ==
          0);
  attack.stage.prepare(command);
  return file_text(attack.stage.data() + "/" + name);
}

}  // namespace

TEST_CASE("damaged zip files end in a fault or in what they hold") {
  stage_damaged(zip({{"a", "first"}, {"d/b", std::string(600, 'b')}, {"c", ""}}), ".zip", 1);
}

TEST_CASE("damaged 7z files end in a fault or in what they hold") {
  stage_damaged(made("7z a -bd t.7z t > /dev/null", "t.7z"), ".7z", 2);
}

TEST_CASE("damaged tar files end in a fault or in what they hold") {
  stage_damaged(made("tar --format=pax -cf t.tar t", "t.tar"), ".tar", 3);
}

TEST_CASE(
    "zip: a directory that points to itself, behind the end or nowhere leads to nothing else") {
  const std::string good = zip({{"a", "first"}, {"b", "second"}});
  const std::size_t end = good.size() - 22;
  for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{end},
                                    std::uint64_t{0xfffffffe}, std::uint64_t{0xffffffff}}) {
    for (const std::size_t at : {end + 12, end + 16}) {
      std::string bad = good;
      bad.replace(at, 4, little(value, 4));
      Attack attack;
      const std::string fault = attack.stage_bytes(bad, "bad.zip");
      CAPTURE(value);
      CAPTURE(fault);
      // A directory that is found all the same is read as unzip would.
      CHECK((fault.empty() ? attack.got() == "a b" : Attack::names(fault, "bad.zip", "")));
    }
  }
}

TEST_CASE("zip: a directory that lost members is a fault, not a smaller archive") {
  const std::string good = zip({{"a", "first"}, {"b", "second"}});
  const std::size_t end = good.size() - 22;
  for (const std::size_t length : {std::size_t{0}, std::size_t{47}}) {
    std::string bad = good;
    bad.replace(end + 12, 4, little(length, 4));
    Attack attack;
    const std::string fault = attack.stage_bytes(bad, "bad.zip");
    CAPTURE(fault);
    CHECK(Attack::names(fault, "bad.zip", ""));
  }
}

TEST_CASE("zip: a member whose header is elsewhere is a fault") {
  for (const std::uint64_t offset : {std::uint64_t{7}, std::uint64_t{1'000'000'000}}) {
    ZipMember member{"a", "first"};
    member.offset = offset;
    check_refused(zip({member}), "bad.zip", "");
  }
}
