#include <doctest/doctest.h>

#include "daemon/worker/archive/entry_filter.hpp"
#include "daemon/worker/archive/entry_limits.hpp"

using namespace nodestage;

TEST_CASE("names are cleaned") {
  CHECK(*clean_entry_name("/a//./b/") == "a/b");
  CHECK(*clean_entry_name("./") == "");
  CHECK(*clean_entry_name("...") == "...");
  CHECK(*clean_entry_name("a\nb/\xff") == "a\nb/\xff");
  for (const char* bad : {"..", "a/..", "../a", "a/../b", "/.."}) CHECK(!clean_entry_name(bad));
}

TEST_CASE("strip comes before the globs") {
  const EntryFilter filter(1, {"val/*", "*.txt"}, {"*secret*"});
  CHECK(filter.map("top/val/a") == "val/a");
  CHECK(!filter.map("top/val"));
  CHECK(!filter.map("top"));
  CHECK(filter.map("top/x/y.txt") == "x/y.txt");
  CHECK(!filter.map("top/x/secrets/y.txt"));
  CHECK(!filter.map("top/x/y.png"));
  CHECK(filter.strip("top/x/y.png") == "x/y.png");
}

TEST_CASE("globs are cleaned as names are") {
  for (const char* glob : {"./train", "train/", "/train", "./train/*", "train/./", "."}) {
    CAPTURE(glob);
    CHECK(EntryFilter(0, {glob}, {}).map("train/x"));
    CHECK(!EntryFilter(0, {}, {glob}).map("train/x"));
  }
  CHECK(!EntryFilter(0, {"../train"}, {}).map("train"));
}

TEST_CASE("a glob that matches a directory matches all below it") {
  const EntryFilter filter(0, {"train"}, {"train/[0-3]"});
  CHECK(filter.map("train"));
  CHECK(filter.map("train/4/x/y"));
  CHECK(!filter.map("train/2/x/y"));
  CHECK(!filter.map("trainer/4"));
}

TEST_CASE("a glob without a slash matches at any depth, as in tar, rsync and gitignore") {
  const EntryFilter filter(0, {}, {".git", "__MACOSX/", "._*"});
  for (const char* name : {".git", "a/.git/config", "a/b/.git", "__MACOSX/x", "a/__MACOSX/x/y",
                           "._x", "a/b/._x", "a/._x/y"})
    CHECK_FALSE_MESSAGE(filter.map(name), name);
  for (const char* name : {".gitignore", "a/x.git", "a/x._y", "_MACOSX/x"}) CHECK(filter.map(name));
  const EntryFilter only(0, {"labels", "*.txt"}, {});
  CHECK(only.map("a/b/labels/1"));
  CHECK(only.map("a/b/x.txt"));
  CHECK_FALSE(only.map("a/b/x.png"));
  CHECK_FALSE(EntryFilter(1, {"top"}, {}).map("top/x"));
}

TEST_CASE("a glob with a slash matches from the start") {
  for (const char* glob : {"./train", "/train", "./train/", "a/train"}) {
    CAPTURE(glob);
    CHECK_FALSE(EntryFilter(0, {glob}, {}).map("b/train/x"));
    CHECK_FALSE(EntryFilter(0, {glob}, {}).map("b/a/train/x"));
  }
  CHECK(EntryFilter(0, {"*/train"}, {}).map("b/a/train/x"));
  CHECK_FALSE(EntryFilter(0, {"*/train"}, {}).map("train/x"));
}

TEST_CASE("in a glob, ** is any number of directories, none too") {
  const EntryFilter filter(0, {"**/x.pt", "a/**/b", "c/**/**/d", "e/**"}, {});
  for (const char* name :
       {"x.pt", "q/x.pt", "q/r/x.pt", "a/b", "a/1/b", "a/1/2/b/3", "c/d", "c/1/d", "e/1"})
    CHECK_MESSAGE(filter.map(name), name);
  for (const char* name : {"x.ptx", "a/bb", "q/a/b", "c", "e"}) CHECK_FALSE(filter.map(name));
  CHECK(EntryFilter(0, {"**/**/**/**/**/**/**/x"}, {}).map("x"));
}

TEST_CASE("globs that make no difference are told") {
  const EntryFilter filter(0, {"train/", "*.txt", "vall"}, {"train/cache", "caches"});
  CHECK(filter.map("train/1"));
  CHECK(filter.map("train/1.txt"));
  CHECK(!filter.map("train/cache/1"));
  CHECK(filter.idle_globs() == "include=vall selects nothing, exclude=caches excludes nothing");
  CHECK(filter.map("vall"));
  CHECK(!filter.map("caches"));
  CHECK(filter.idle_globs() == "");

  const EntryFilter many(0, {}, {"a", "b", "\033[c", "d", "e"});
  CHECK(many.map("x"));
  CHECK(many.idle_globs() ==
        "exclude=a excludes nothing, exclude=b excludes nothing, exclude=\\x1b[c excludes nothing, "
        "likewise 2 other globs");
}

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

TEST_CASE("an entry beyond the limits is refused with the limit, and one within them is accepted") {
  using Kind = Entry::Kind;
  struct Case {
    Entry entry;
    std::string fault = {};  // how it begins
  };
  for (const Case& test :
       {Case{named("")}, Case{named("./a//b/")}, Case{named(std::string(255, 'n'))},
        Case{named(deep_archive(EntryLimits::k_depth))},
        Case{named("l", Kind::symlink, "/any/where")},
        Case{named("l", Kind::symlink, std::string(4095, 'l'))},
        Case{named("h", Kind::hard_link, std::string(32'768, 'l'))}, Case{named("f")},
        Case{named(std::string("a\0b", 3)), "its name contains a NUL byte"},
        Case{named("d/" + std::string(256, 'n') + "/f"),
             "a component of its name has 256 bytes, and file systems accept at most 255\n"},
        Case{named(deep_archive(EntryLimits::k_depth + 1)),
             "it is 1,001 directories deep, and at most 1,000 are accepted\n"},
        Case{named(deep_archive(EntryLimits::k_name_bytes)),
             "its name has 65,536 bytes, and at most 32,768 are accepted\n"},
        Case{named("l", Kind::symlink), "is a link with an empty target\n"},
        Case{named("l", Kind::symlink, std::string(4096, 'l')),
             "is a link with a target of 4,096 bytes, and at most 4,095 are accepted\n"},
        Case{named("h", Kind::hard_link, std::string(32'769, 'l')),
             "is a link with a target of 32,769 bytes, and at most 32,768 are accepted"},
        Case{named("h", Kind::hard_link, std::string("a\0b", 3)),
             "is a link with a NUL byte in its target\n"}}) {
    const std::string fault = fault_of(test.entry);
    CAPTURE(test.fault);
    CAPTURE(fault);
    CHECK(test.fault.empty() == fault.empty());
    CHECK(fault.starts_with(test.fault));
  }
}
