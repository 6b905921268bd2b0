// What a job's record notes of the site at its prolog, and what follows from it at its end.
#include <doctest/doctest.h>

#include "job_site.hpp"

using namespace nodestage;

namespace {

constexpr std::uint32_t k_asking_job = 7;

// A job that ran, whose results are being delivered while its epilog waits.
void bring_to_its_end(JobSite& site, const Begin& begin) {
  site.accept(begin);
  site.workers.finish(WorkerTask::stage, WorkerPhase::done);
  site.wait(k_asking_job);
  REQUIRE(site.end(k_asking_job) != 0);
  site.answers.clear();
}

}  // namespace

TEST_CASE("where Slurm can switch the node off, the epilog waits until the results are delivered") {
  JobSite site;
  Begin begin = site.request(k_asking_job);
  begin.slurm_ways |= k_powers_down;
  bring_to_its_end(site, begin);
  site.pass(std::chrono::seconds(epilog_wait_of(site.config) + 1));
  CHECK(site.answers.empty());
  CHECK(site.trees("hold") == 0);
  site.workers.finish(WorkerTask::stage_out, WorkerPhase::done);
  REQUIRE(site.answers.size() == 1);
  CHECK(std::get<Ended>(site.answers.back()).outcome == EndOutcome::done);
}

TEST_CASE("a directory that is there at the prolog is the work of another program") {
  JobSite site;
  const Begin begin = site.request(k_asking_job);
  SUBCASE("it is not") {
    site.accept(begin);
    CHECK_FALSE(site.journal.load().records.at(0).directory_was_there);
  }
  SUBCASE("it is, and the next daemon knows") {
    REQUIRE(site.areas.make_directory("alice." + std::to_string(k_asking_job) + ".0",
                                      JobSite::user(), JobSite::group()));
    site.accept(begin);
    CHECK(site.journal.load().records.at(0).directory_was_there);
    site.start_daemon();
    CHECK(site.journal.load().records.at(0).directory_was_there);
  }
}
