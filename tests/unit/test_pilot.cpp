#include <doctest/doctest.h>

#include <vector>

#include "job_site.hpp"

using namespace nodestage;

TEST_CASE("in a pilot, the jobs of other users are refused") {
  JobSite site;
  const auto is_accepted = [&](std::uint32_t job) {
    return std::holds_alternative<Accepted>(site.jobs->begin(site.request(job)));
  };
  SUBCASE("who are not named") {
    site.config.staging.users = {"bob"};
    const auto answer = site.jobs->begin(site.request(1));
    REQUIRE(std::holds_alternative<Refused>(answer));
    CHECK(std::get<Refused>(answer).reason == RefusalReason::not_permitted);
    CHECK(std::get<Refused>(answer).what.starts_with("nodestage is not open to alice on n1 yet\n"));
    CHECK(site.state_of(1).empty());
  }
  SUBCASE("but not jobs that only have a directory") {
    site.config.staging.users = {"bob"};
    Begin begin = site.request(1);
    begin.request.clear();
    site.accept(begin);
  }
  SUBCASE("nor those who are") {
    site.config.staging.users = {"bob", "alice"};
    site.config.staging.groups = {5};
    CHECK(is_accepted(1));
    CHECK(site.workers.find(WorkerTask::stage)->as<StageOrder>().only_groups.empty());
  }
  SUBCASE("and the worker decides by groups") {
    site.config.staging.groups = {5, 6};
    CHECK(is_accepted(1));
    const auto& order = site.workers.find(WorkerTask::stage)->as<StageOrder>();
    CHECK(order.only_groups == std::vector<std::uint64_t>{5, 6});
    CHECK(order.refuse_user.starts_with("nodestage is not open to alice on n1 yet\n"));
  }
}
