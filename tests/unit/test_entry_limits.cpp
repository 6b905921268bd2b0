#include <doctest/doctest.h>

#include "daemon/worker/archive/entry_limits.hpp"

using namespace nodestage;

namespace {

Entry named(const std::string& name, Entry::Kind kind = Entry::Kind::file,
            const std::string& link = "") {
  Entry entry;
  entry.name = name;
  entry.kind = kind;
  entry.link = link;
  return entry;
}

std::string fault_of(const Entry& entry) {
  const Status within = EntryLimits(1).check(entry);
  return within ? "" : within.error().text();
}

std::string deep_archive(std::size_t depth) {
  std::string name;
  for (std::size_t i = 0; i < depth; ++i) name += "/d";
  return name;
}

}  // namespace

TEST_CASE("names, links and depths within the limits are accepted") {
  CHECK(fault_of(named("")).empty());
  CHECK(fault_of(named("./a//b/")).empty());
  CHECK(fault_of(named(std::string(255, 'n'))).empty());
  CHECK(fault_of(named(deep_archive(EntryLimits::k_depth))).empty());
  CHECK(fault_of(named("l", Entry::Kind::symlink, "/any/where")).empty());
  CHECK(fault_of(named("l", Entry::Kind::symlink, std::string(4095, 'l'))).empty());
  CHECK(fault_of(named("h", Entry::Kind::hard_link, std::string(32'768, 'l'))).empty());
  CHECK(fault_of(named("f", Entry::Kind::file)).empty());
}

TEST_CASE("an entry beyond the limits is refused with the limit") {
  CHECK(fault_of(named(std::string("a\0b", 3))).starts_with("its name contains a NUL byte"));
  CHECK(fault_of(named("d/" + std::string(256, 'n') + "/f"))
            .starts_with(
                "a component of its name has 256 bytes, and file systems accept at most 255\n"));
  CHECK(fault_of(named(deep_archive(EntryLimits::k_depth + 1)))
            .starts_with("it is 1,001 directories deep, and at most 1,000 are accepted\n"));
  CHECK(fault_of(named(deep_archive(EntryLimits::k_name_bytes)))
            .starts_with("its name has 65,536 bytes, and at most 32,768 are accepted\n"));
  CHECK(fault_of(named("l", Entry::Kind::symlink)).starts_with("is a link with an empty target\n"));
  CHECK(
      fault_of(named("l", Entry::Kind::symlink, std::string(4096, 'l')))
          .starts_with("is a link with a target of 4,096 bytes, and at most 4,095 are accepted\n"));
  CHECK(
      fault_of(named("h", Entry::Kind::hard_link, std::string(32'769, 'l')))
          .starts_with("is a link with a target of 32,769 bytes, and at most 32,768 are accepted"));
  CHECK(fault_of(named("h", Entry::Kind::hard_link, std::string("a\0b", 3)))
            .starts_with("is a link with a NUL byte in its target\n"));
}
