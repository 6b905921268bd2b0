// A run of a job makes way for the next one whose epilog has not come.
#include <doctest/doctest.h>

#include <filesystem>

#include "job_site.hpp"

using namespace nodestage;

namespace {

constexpr std::uint32_t k_held_job = 7;

bool is_accepted(const Message& answer) { return std::holds_alternative<Accepted>(answer); }

}  // namespace

TEST_CASE("a run that could not make way at first does so later, and its results are delivered") {
  JobSite site;
  REQUIRE(is_accepted(site.jobs->begin(site.request(k_held_job))));
  site.workers.finish(WorkerTask::stage, WorkerPhase::done);
  site.wait(k_held_job);
  // Something is in the way of what is moved there.
  const std::string held = site.scratch / (".nodestage/hold/" + std::to_string(k_held_job) + ".0");
  std::filesystem::create_directories(held + "/full");
  CHECK_FALSE(is_accepted(site.jobs->begin(site.request(k_held_job, 1))));
  CHECK(site.state_of(k_held_job) == "ready");
  std::filesystem::remove_all(held);
  CHECK(is_accepted(site.jobs->begin(site.request(k_held_job, 1))));
  CHECK(site.state_of(k_held_job) == "staging out");
  CHECK(site.workers.find(WorkerTask::stage_out) != nullptr);
}

TEST_CASE("the epilog of a run that could not make way ends that run") {
  JobSite site;
  REQUIRE(is_accepted(site.jobs->begin(site.request(k_held_job))));
  site.workers.finish(WorkerTask::stage, WorkerPhase::done);
  site.wait(k_held_job);
  std::filesystem::create_directories(
      site.scratch / (".nodestage/hold/" + std::to_string(k_held_job) + ".0/full"));
  CHECK_FALSE(is_accepted(site.jobs->begin(site.request(k_held_job, 1))));
  CHECK(site.end(k_held_job) != 0);
  CHECK(site.state_of(k_held_job) == "staging out");
}
