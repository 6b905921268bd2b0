// What jobs with shared items wait for, and what they do not, without root and worker processes.
#include <doctest/doctest.h>

#include "sharing_site.hpp"

using namespace nodestage;

TEST_CASE("who finds all its items there does not wait for a place") {
  SharingSite site;
  site.stage(1);
  site.ask(2, {{k_b, "other"}});
  CHECK(site.stages(2));  // the only place
  site.ask(3, {{k_a, "data"}});
  CHECK(site.stages(3));
  site.ask(4, {{k_a, "data"}, {std::string(k_share_key_bytes, 'c'), "more"}});
  CHECK_FALSE(site.stages(4));
}

TEST_CASE("who wants what another job stages waits for it without a place, and is told so") {
  SharingSite site;
  site.ask(1, {{k_a, "data"}});
  site.ask(2, {{k_a, "data"}});
  site.config.staging.max_jobs = 8;
  site.pass(std::chrono::seconds(10));
  CHECK_FALSE(site.stages(2));
  CHECK(site.state_of(2) == "queued");
  site.wait(2);
  const auto* progress = std::get_if<Progress>(&site.answers.back());
  REQUIRE(progress != nullptr);
  CHECK(progress->current == "job 1, which stages data.tar for both");
  CHECK(site.jobs->status(2, 0).at(0).row.others ==
        "waiting for job 1, which stages data.tar for both");
  site.finish(1);
  CHECK(site.role_of(2) == ShareRole::link);
}

TEST_CASE("who is only looked at waits for no other job, and is told so") {
  SharingSite site;
  site.ask(1, {{k_b, "other"}});
  REQUIRE(site.stages(1));  // the only place
  site.begin(2);
  site.wait(2);
  const auto* progress = std::get_if<Progress>(&site.answers.back());
  REQUIRE(progress != nullptr);
  CHECK(progress->current == "a look at what it shares");
  CHECK(site.jobs->status(2, 0).at(0).row.others == "waiting for a look at what it shares");
  site.identify(2, {{k_a, "data"}});
  site.wait(2);
  progress = std::get_if<Progress>(&site.answers.back());
  REQUIRE(progress != nullptr);
  CHECK(progress->current.empty());
  CHECK(progress->jobs_ahead == 1);
}

TEST_CASE("who gets no turn to be looked at in time stages for itself") {
  SharingSite site;
  site.config.staging.max_jobs = 8;
  for (std::uint32_t job = 1; job <= 5; ++job) site.begin(job);
  site.wait(5);
  const auto* progress = std::get_if<Progress>(&site.answers.back());
  REQUIRE(progress != nullptr);
  CHECK(progress->current == "its turn to look at what it shares");
  site.pass(std::chrono::seconds(site.config.cache.identify_wait_s - 1));
  CHECK_FALSE(site.stages(5));
  site.pass(std::chrono::seconds(2));
  REQUIRE(site.stages(5));
  CHECK(site.order(5).empty());
  site.identify(1, {{k_a, "data"}});
  CHECK(site.order(1).at(0).role == ShareRole::lead);
}

// ---- cache.scope = "readers"

namespace {

using Names = std::vector<std::string>;
constexpr std::uint64_t k_large = 100ULL << 20;
const std::string k_c(k_share_key_bytes, 'c');

}  // namespace

TEST_CASE("attack: nobody waits for what the keeper stages of another job first") {
  ReadersSite site;
  site.ask(1, {{k_a, "large", k_large}, {k_b, "wanted"}});
  CHECK(site.keeps(1) == Names{"large"});
  site.ask(2, {{k_b, "wanted"}});
  REQUIRE(site.keeps(2) == Names{"wanted"});
  site.keep(2, 1);
  site.end_keep(2);
  CHECK(site.role_of(2) == ShareRole::link);
  CHECK(site.order(2)[0].note == "kept on this node, for all who may read it");
  site.keep(1, 1);
  site.end_keep(1);
  REQUIRE(site.order(1).size() == 2);
  CHECK(site.order(1)[1].note == "staged by job 2, for all who may read it");
}

TEST_CASE("attack: nobody waits for a job that has no place" * doctest::skip(::geteuid() != 0)) {
  ReadersSite site;
  site.config.staging.max_jobs_per_user = 1;
  site.accept(site.request(1));  // it has a place
  site.ask(2, {{k_a, "data"}});
  CHECK(site.keeps(2).empty());
  site.ask(3, {{k_a, "data"}}, SharingSite::user() + 1);
  REQUIRE(site.keeps(3) == Names{"data"});
  site.keep(3, 1);
  site.end_keep(3);
  // Both find it, and who finds all needs no place.
  CHECK(site.order(2).at(0).note == "staged by job 3, for all who may read it");
  CHECK(site.stages(3));
}

TEST_CASE("who has waited for the common copy for long stages for itself, with a note") {
  ReadersSite site;
  site.ask(1, {{k_a, "data"}});
  site.ask(2, {{k_a, "data"}});
  site.wait(2);
  CHECK(std::get<Progress>(site.answers.back()).current == "job 1, which stages data.tar for both");
  site.pass(std::chrono::seconds(site.config.cache.readers_wait_s - 1));
  CHECK_FALSE(site.stages(2));
  site.pass(std::chrono::seconds(2));
  CHECK(site.role_of(2) == ShareRole::own);
  CHECK(site.order(2)[0].note ==
        "nobody's job has staged it for all who may read it within 10 min 00 s");
  // The keeper goes on for the first one.
  site.keep(1, 1);
  site.end_keep(1);
  CHECK(site.order(1).at(0).role == ShareRole::link);
}

TEST_CASE("when the keeper fails or its job is cancelled, the next job's goes on, twice at most") {
  for (const bool is_cancelled : {false, true}) {
    for (const bool goes_well : {false, true}) {
      ReadersSite site;
      for (const std::uint32_t job : {1U, 2U, 3U}) site.ask(job, {{k_a, "data"}});
      if (is_cancelled) site.over(1);
      site.end_keep(1, k_dead);
      if (!is_cancelled) CHECK(site.order(1).at(0).note == "it could not be kept for others");
      REQUIRE(site.keeps(2) == Names{"data"});
      CHECK(site.keeps(3).empty());
      if (goes_well) site.keep(2, 1);
      site.end_keep(2, k_dead);
      REQUIRE(site.order(3).size() == 1);
      CHECK(site.order(3)[0].role == (goes_well ? ShareRole::link : ShareRole::own));
    }
  }
}

TEST_CASE("a place that a job got while others began to stage what it shares goes back" *
          doctest::skip(::geteuid() != 0)) {
  ReadersSite site;
  site.accept(site.request(1));  // it has a place
  site.ask(2, {{k_c, "often"}});
  site.ask(3, {{k_c, "often"}});
  site.config.staging.max_jobs = 1;
  site.ask(4, {{k_b, "wanted"}});
  site.end_keep(2, k_dead);
  for (const std::uint32_t job : {3U, 4U}) REQUIRE(site.keeps(job).empty());
  // With job 5's place come those of the others, whose user has more. Job 4 stages the one item for
  // it, and the other one cannot be shared any more, since job 3 has no directory.
  std::filesystem::remove_all(site.job_path(3));
  site.config.staging.max_jobs = 8;
  site.ask(5, {{k_b, "wanted"}, {k_c, "often"}}, SharingSite::user() + 1);
  REQUIRE(site.keeps(4) == Names{"wanted"});
  CHECK(site.keeps(5).empty());
  CHECK_FALSE(site.stages(5));
  REQUIRE(site.stages(2));
  // Those of jobs 1, 2 and 4 are taken.
  site.config.staging.max_jobs = 4;
  Begin begin = site.request(6);
  begin.uid += 2;
  site.accept(begin);
  CHECK(site.stages(6));
}

TEST_CASE("one process of the keeper stages a job's small items, and a large one by itself") {
  ReadersSite site;
  site.ask(1, {{k_a, "one"}, {k_b, "large", k_large}, {k_c, "two"}});
  REQUIRE(site.keeps(1) == Names{"one", "two"});
  SUBCASE("in time") { site.keep(1, 2); }
  SUBCASE("one takes too long: the other one is kept, and it gets a process to itself") {
    site.keep(1, 1);
    site.pass(std::chrono::seconds(11));
    CHECK(site.workers.killed.size() == 1);
  }
  site.end_keep(1, k_dead);
  while (!site.keeps(1).empty()) {
    CHECK(site.keeps(1).size() == 1);
    site.keep(1, 1);
    site.end_keep(1);
  }
  REQUIRE(site.order(1).size() == 3);
  for (const SharedItem& shared : site.order(1)) CHECK(shared.role == ShareRole::link);
  CHECK(site.kept() == 3);
}
