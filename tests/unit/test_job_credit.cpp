// Which time of a job's staging is added to its limit.
#include <doctest/doctest.h>

#include "job_site.hpp"

using namespace nodestage;

namespace {

constexpr std::uint32_t k_job = 7;

}  // namespace

TEST_CASE("time in which an environment is made, which can run its user's programs, is not added") {
  for (const bool is_environment : {false, true}) {
    CAPTURE(is_environment);
    JobSite site;
    site.config.credit.enabled = true;
    site.jobs->begin(site.request(k_job));
    ItemRecord item{};
    item.state = static_cast<std::uint32_t>(ItemState::working);
    item.flags = is_environment ? k_item_venv : 0;
    item.begun_ms = site.loop.wall_ms();
    REQUIRE(site.workers.say(WorkerTask::stage, k_job, WorkerPhase::working, {item}));
    site.pass(std::chrono::minutes(30));
    item.state = static_cast<std::uint32_t>(ItemState::done);
    item.ended_ms = site.loop.wall_ms();
    REQUIRE(site.workers.say(WorkerTask::stage, k_job, WorkerPhase::done, {item}));
    REQUIRE(site.workers.end(WorkerTask::stage));
    CHECK((site.journal.load().records.at(0).credit_minutes == 0) == is_environment);
  }
}

TEST_CASE("time in which a step looked at a job is not added to its limit, whoever saw it begin") {
  for (const bool looks : {false, true}) {
    for (const bool restarts : {false, true}) {
      CAPTURE(looks);
      CAPTURE(restarts);
      JobSite site;
      site.config.credit.enabled = true;
      site.jobs->begin(site.request(k_job));
      Wait look;
      look.job = k_job;
      look.step = 1;
      look.goes_on = k_looks;
      if (looks) site.jobs->wait(look, site.reply);
      site.pass(std::chrono::minutes(30));
      CHECK(site.journal.load().records.at(0).is_looked_at == looks);
      if (restarts) site.start_daemon();
      look.goes_on = k_looked;
      if (looks) site.jobs->wait(look, site.reply);
      site.workers.finish(WorkerTask::stage, WorkerPhase::done);
      CHECK((site.journal.load().records.at(0).credit_minutes == 0) == looks);
    }
  }
}
