// What jobs with shared items wait for, and what they do not, without root and worker processes.
#include <doctest/doctest.h>

#include "sharing_site.hpp"

using namespace nodestage;

TEST_CASE("who finds all its items there does not wait for a place") {
  SharingSite site;
  site.ask(1, {{k_a, "data"}});
  site.finish(1);
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
  site.finish(1);
  REQUIRE(site.order(2).size() == 1);
  CHECK(site.order(2)[0].role == ShareRole::link);
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
