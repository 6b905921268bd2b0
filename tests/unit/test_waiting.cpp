#include <doctest/doctest.h>

#include <algorithm>
#include <variant>

#include "job_site.hpp"

using namespace nodestage;

TEST_CASE("of very many callers that wait some are answered at a time, all in the end") {
  constexpr std::ptrdiff_t k_callers = 200;
  JobSite site;
  site.accept(site.request(7));
  for (std::ptrdiff_t i = 0; i < k_callers; ++i) site.wait(7);
  site.answers.clear();
  const auto answered = [&site] {
    return std::count_if(site.answers.begin(), site.answers.end(), [](const Message& message) {
      return std::holds_alternative<Ready>(message) || std::holds_alternative<Failed>(message);
    });
  };
  site.workers.finish(WorkerTask::stage, WorkerPhase::done);
  CHECK(answered() > 0);
  CHECK(answered() < k_callers / 2);
  SUBCASE("the job goes on") {}
  SUBCASE("the job is gone at once") {
    site.end(7);
    site.workers.finish(WorkerTask::stage_out, WorkerPhase::done);
    REQUIRE(site.state_of(7).empty());
  }
  for (int i = 0; i < 8; ++i) site.pass(std::chrono::seconds(1));
  CHECK(answered() == k_callers);
}
