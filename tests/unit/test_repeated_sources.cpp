#include <doctest/doctest.h>

#include "common/os/wall_clock.hpp"
#include "daemon/root/table/job_table.hpp"
#include "sharing_site.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

constexpr std::uint64_t k_now_s = 1'800'000'000;
constexpr const char* k_shared =
    "the third time in a day that a job of yours stages this here: with ,shared it would have been "
    "there at once, and have saved 2.0 GiB and 4.0 s so far";

ItemRecord file(std::uint64_t mark) {
  ItemRecord item{.state = static_cast<std::uint32_t>(ItemState::done),
                  .bytes_read = 1ULL << 30,
                  .elapsed_ms = 2000,
                  .source_mark = mark};
  set_field(item.what, "tar");
  set_field(item.source, "/project/data.tar");
  return item;
}

ItemRecord directory(std::uint64_t files) {
  ItemRecord item = file(7);
  item.files = files;
  set_field(item.what, "directory");
  set_field(item.source, "/project/my data");
  return item;
}

std::string third(RepeatedSources& repeated, const ItemRecord& item) {
  CHECK(repeated.count({1000, 1}, item, k_now_s).empty());
  CHECK(repeated.count({1000, 2}, item, k_now_s + 1).empty());
  return repeated.count({1000, 3}, item, k_now_s + 2);
}

// The line on its item that the job's first step is given.
std::string line_of(SharingSite& site, std::uint32_t job) {
  site.accept(site.request(job));
  site.finish_with(job, {file(7)});
  site.answers.clear();
  Wait wait{.job = job, .speaks = 1};
  site.jobs->wait(wait, site.reply);
  REQUIRE(site.answers.size() == 1);
  return as<Ready>(site.answers[0]).lines.at(0);
}

}  // namespace

TEST_CASE("the third time within a day is worth a hint, once") {
  RepeatedSources repeated;
  CHECK(third(repeated, file(7)) == k_shared);
  CHECK(repeated.count({1000, 4}, file(7), k_now_s + 3).empty());
  SUBCASE("and the next day again") {
    CHECK(repeated.count({1000, 5}, file(7), k_now_s + k_day_s).empty());
    CHECK(repeated.count({1000, 6}, file(7), k_now_s + k_day_s + 1).empty());
    CHECK(repeated.count({1000, 7}, file(7), k_now_s + k_day_s + 2) == k_shared);
  }
  SUBCASE("for each user and source by themselves") {
    CHECK(third(repeated, file(8)) == k_shared);
    CHECK(repeated.count({1001, 4}, file(7), k_now_s).empty());
  }
}

TEST_CASE("a hint is shown from one GiB or one minute saved on") {
  struct Row {
    std::uint64_t bytes;
    std::uint32_t ms;
    bool is_shown;
  };
  ItemRecord item = file(7);
  for (const Row& row : {Row{512ULL << 20, 0, true}, Row{(512ULL << 20) - 1, 29'999, false},
                         Row{10'240, 30'000, true}, Row{10'240, 50, false}}) {
    CAPTURE(row.bytes);
    item.bytes_read = row.bytes;
    item.elapsed_ms = row.ms;
    RepeatedSources repeated;
    CHECK(third(repeated, item).empty() != row.is_shown);
  }
}

TEST_CASE("a job counts once, however many of its items have the source, and if it runs again") {
  RepeatedSources repeated;
  for (int i = 0; i < 4; ++i) CHECK(repeated.count({1000, 1}, file(7), k_now_s).empty());
  for (int i = 0; i < 4; ++i) CHECK(repeated.count({1000, 2}, file(7), k_now_s + 1).empty());
  CHECK(repeated.count({1000, 1}, file(7), k_now_s + 2).empty());
  CHECK(repeated.count({1000, 3}, file(7), k_now_s + 3) == k_shared);
  CHECK(repeated.count({1000, 3}, file(7), k_now_s + 3).empty());
}

TEST_CASE("what is not known, or was not staged, is not counted") {
  RepeatedSources repeated;
  CHECK(third(repeated, file(0)).empty());
  ItemRecord failed = file(7);
  failed.state = static_cast<std::uint32_t>(ItemState::failed);
  CHECK(third(repeated, failed).empty());
}

TEST_CASE("three times in more than a day are no reason for a hint") {
  RepeatedSources repeated;
  for (std::uint64_t time = 0; time < 10; ++time)
    CHECK(
        repeated
            .count({1000, static_cast<std::uint32_t>(time)}, file(7), k_now_s + time * k_day_s / 2)
            .empty());
}

TEST_CASE("a directory of many files is better packed") {
  RepeatedSources repeated;
  CHECK(third(repeated, directory(12'000)) ==
        "the third time in a day that a job of yours stages this here: an archive is faster than "
        "12,000 files: nodestage pack '/project/my data' -o 'my data.tar.zst'");
  RepeatedSources others;
  CHECK(third(others, directory(1999)).empty());
}

TEST_CASE("a command to pack is shown only with a path that can be pasted") {
  RepeatedSources repeated;
  ItemRecord item = directory(12'000);
  SUBCASE("not with one that the record has shortened") {
    set_field(item.source, "/project/" + std::string(600, 'a') + "..." + std::string(411, 'z'));
  }
  SUBCASE("nor with characters that a terminal does not show") {
    set_field(item.source, "/project/new\nline");
  }
  CHECK(third(repeated, item) ==
        "the third time in a day that a job of yours stages this here: an archive is faster than "
        "12,000 files: nodestage pack makes one");
}

TEST_CASE("a user who claims many sources loses only hints of their own") {
  RepeatedSources repeated;
  for (std::uint32_t job : {1U, 2U}) repeated.count({1000, job}, file(7), k_now_s);
  for (std::uint64_t mark = 1; mark < 100'000; ++mark)
    repeated.count({1001, 4}, file(mark), k_now_s);
  CHECK(repeated.count({1000, 3}, file(7), k_now_s) == k_shared);
}

TEST_CASE("of more users than are remembered, the one who came last is among them") {
  RepeatedSources repeated;
  for (std::uint32_t uid = 2000; uid < 12'000; ++uid) repeated.count({uid, 9}, file(7), k_now_s);
  CHECK(third(repeated, file(7)) == k_shared);
}

TEST_CASE("two items of one job are not two jobs") {
  SharingSite site;
  for (const std::uint32_t job : {1U, 2U}) {
    site.accept(site.request(job));
    site.finish_with(job, {file(7), file(7)});
  }
  site.answers.clear();
  Wait wait{.job = 2, .speaks = 1};
  site.jobs->wait(wait, site.reply);
  REQUIRE(site.answers.size() == 1);
  const auto lines = as<Ready>(site.answers[0]).lines;
  REQUIRE(lines.size() >= 2);
  for (const auto& line : lines) CHECK_FALSE(has(line, "third time"));
}

TEST_CASE("the hint is in the line of the item, in the third job alone") {
  SharingSite site;
  for (const std::uint32_t job : {1U, 2U}) CHECK_FALSE(has(line_of(site, job), "third time"));
  SUBCASE("by default") {
    CHECK(has(line_of(site, 3), std::string("; ") + k_shared));
    CHECK_FALSE(has(line_of(site, 4), "third time"));
  }
  SUBCASE("not if the site does not want it") {
    site.config.staging.hints = false;
    CHECK_FALSE(has(line_of(site, 3), "third time"));
  }
  SUBCASE("another daemon counts anew") {
    site.start_daemon();
    CHECK_FALSE(has(line_of(site, 3), "third time"));
  }
}
