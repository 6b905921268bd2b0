#include <doctest/doctest.h>

#include "daemon/root/tasks/job_workers.hpp"

using namespace nodestage;

TEST_CASE("worker orders: what may wait for a file system has no limit for standing still") {
  Config config;
  config.worker.kill_wait_s = 7;
  config.staging.groups_wait_s = 8;
  for (std::uint64_t number = 0; const auto task = to_enum<WorkerTask>(number); ++number) {
    const Workers::Limits limits = limits_of(*task, config);
    CHECK(limits.idle.count() == 0);
    CHECK(limits.kill == std::chrono::seconds(7));
    CHECK(limits.start == std::chrono::seconds(8));
  }
}
