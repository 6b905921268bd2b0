// How much a push is going to copy, for the progress.
#include <doctest/doctest.h>

#include "stage_out_job.hpp"

using namespace nodestage;

TEST_CASE(
    "a push that somebody watches knows how much there is to copy, of what is not there yet") {
  PushJob job;
  job.order.shows_total = true;
  write_file(job.directory / "results/a", std::string(1000, 'a'));
  write_file(job.directory / "results/sub/b", std::string(200, 'b'));
  fs::create_symlink("a", job.directory / "results/l");
  const auto total = [&job](std::size_t item = 0) { return job.status.items[item].bytes_total; };
  SUBCASE("of a directory's contents") {
    job.deliver("results", "out");
    CHECK(total() == 1200);
    write_file(job.directory / "results/sub/c", std::string(30, 'c'));
    REQUIRE(job.run() == 0);
    CHECK(total() == 30);
    CHECK(job.status.items[0].bytes_read == 30);
  }
  SUBCASE("of the directory, a file, and matches") {
    job.ask("results", "inside/");
    job.ask("results/a", "named");
    job.ask("res*/a", "matches");
    REQUIRE(job.run() == 0);
    CHECK(total() == 1200);
    CHECK(total(1) == 1000);
    CHECK(total(2) == 1000);
    write_file(job.directory / "results/sub/c", std::string(30, 'c'));
    REQUIRE(job.run() == 0);
    CHECK(total() == 30);
    CHECK(total(1) == 0);
    CHECK(total(2) == 0);
  }
  SUBCASE("and one that nobody watches does not look") {
    job.order.shows_total = false;
    job.deliver("results", "out");
    CHECK(total() == 0);
  }
}
