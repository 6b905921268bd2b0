#include <doctest/doctest.h>

#include "daemon/worker/archive/entry_filter.hpp"

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

TEST_CASE("globs that make no difference are told") {
  const EntryFilter filter(0, {"train/", "*.txt", "vall"}, {"train/cache", "cache"});
  CHECK(filter.map("train/1"));
  CHECK(filter.map("train/1.txt"));
  CHECK(!filter.map("train/cache/1"));
  CHECK(filter.idle_globs() == "include=vall selects nothing, exclude=cache excludes nothing");
  CHECK(filter.map("vall"));
  CHECK(!filter.map("cache"));
  CHECK(filter.idle_globs() == "");

  const EntryFilter many(0, {}, {"a", "b", "\033[c", "d", "e"});
  CHECK(many.map("x"));
  CHECK(many.idle_globs() ==
        "exclude=a excludes nothing, exclude=b excludes nothing, exclude=\\x1b[c excludes nothing, "
        "likewise 2 other globs");
}
