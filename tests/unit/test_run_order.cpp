#include <doctest/doctest.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/run/run.hpp"

using namespace nodestage;

namespace {

void leave_slurm() {
  for (const char* name : {"SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID",
                           "SLURM_JOB_NAME", "SLURM_NODEID", "SLURM_RESTART_COUNT"})
    ::unsetenv(name);
}

StageRequest with_target(const std::string& target) {
  StageRequest request;
  request.outputs.push_back({"r", target});
  return request;
}

}  // namespace

TEST_CASE("outside of Slurm every pattern but %a has a sensible value") {
  leave_slurm();
  const StageOutOrder order = run_order("/t/d", "./bin/train.sh");
  CHECK(order.job == static_cast<std::uint32_t>(::getpid()));
  CHECK(order.restart == 0);
  CHECK(order.node_index == 0);
  CHECK(order.node_count == 1);
  CHECK(order.job_name == "train.sh");
  CHECK(order.uid == ::getuid());
  CHECK(order.directory == "/t/d");
  CHECK(order.threads >= 1);
  CHECK(check_targets(with_target("/o/%j-%A-%u-%x-%N-%n-%r-%%"), order));
  const Status refused = check_targets(with_target("/o/%A_%a"), order);
  REQUIRE(!refused);
  CHECK(refused.error().text().find("'/o/%A_%a': the value of %a is not known") !=
        std::string::npos);
  CHECK(refused.error().text().find("\nThis is not a task of a job array") != std::string::npos);
}

TEST_CASE("inside of a Slurm job they are that job's") {
  ::setenv("SLURM_JOB_ID", "4711", 1);
  ::setenv("SLURM_ARRAY_JOB_ID", "4710", 1);
  ::setenv("SLURM_ARRAY_TASK_ID", "3", 1);
  ::setenv("SLURM_JOB_NAME", "sweep", 1);
  ::setenv("SLURM_NODEID", "2", 1);
  ::setenv("SLURM_RESTART_COUNT", "1", 1);
  const StageOutOrder order = run_order("/t/d", "x");
  leave_slurm();
  CHECK(order.job == 4711);
  CHECK(order.array_job == 4710);
  CHECK(order.array_task == 3);
  CHECK(order.job_name == "sweep");
  CHECK(order.node_index == 2);
  CHECK(order.restart == 1);
  CHECK(check_targets(with_target("/o/%A_%a"), order));
}

TEST_CASE("a run shares nothing and says so") {
  StageRequest request;
  request.datasets.resize(3);
  CHECK(share_nothing(request).empty());
  request.datasets[1].shared = true;
  request.venv = VenvItem{};
  request.venv->shared = true;
  const auto items = share_nothing(request);
  REQUIRE(items.size() == 2);
  CHECK(items[0] == SharedItem{1, ShareRole::own, "", "", "`nodestage run` keeps nothing"});
  CHECK(items[1].item == 3);
}
