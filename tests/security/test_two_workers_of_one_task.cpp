// Attack: a worker of a job hangs, or takes long, and the next one of the same task starts
// meanwhile. What ends or kills the first one must not touch the second.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "../unit/job_site.hpp"
#include "../unit/texts.hpp"
#include "daemon/root/tasks/job_workers.hpp"

using namespace nodestage;

namespace {

// Without the jobs themselves.
struct OneJob {
  JobSite site = {};
  Counters counters = {};
  JobTable table{site.loop, site.journal, counters};
  JobFiles files{site.areas};
  JobWorkers workers{site.loop, site.config, table, files, site.workers, counters};
  JobRecord record = {};
  int ends = 0;

  OneJob() { record.begin = site.request(7); }
  void start(WorkerTask task) {
    REQUIRE(workers.start(record, workers.order(record, task), workers.bounds(record, task),
                          [this](const JobKey&, const WorkerEnd&) { ++ends; }));
  }
};

}  // namespace

TEST_CASE("a worker that ends late does not end the next one of its task") {
  OneJob work;
  work.start(WorkerTask::identify);
  work.start(WorkerTask::identify);
  REQUIRE(work.site.workers.end(WorkerTask::identify));
  CHECK(work.ends == 1);
  CHECK(work.workers.is_working(work.record.key(), WorkerTask::identify));
  work.workers.kill(work.record.key(), WorkerTask::identify);
  CHECK(work.site.workers.killed == std::vector<Workers::Id>{2});
  REQUIRE(work.site.workers.end(WorkerTask::identify));
  CHECK(work.ends == 2);
  CHECK_FALSE(work.workers.is_working(work.record.key(), WorkerTask::identify));
}

TEST_CASE("two workers of one task have a cgroup each") {
  const Scratch scratch;
  const std::string own = scratch / "cg/own";
  std::filesystem::create_directories(own);
  std::filesystem::create_directories(scratch / "proc/self");
  std::ofstream(scratch / "proc/self/mountinfo")
      << "30 24 0:26 / " << (scratch / "cg") << " rw shared:4 - cgroup2 x rw\n";
  auto cgroups = must(Cgroups::discover("0::/own\n", scratch / "proc"));
  auto loop = must(Loop::create());
  int ends = 0;
  Workers workers(loop, std::move(cgroups));
  WorkerStart start{.program = "/nonexistent", .cgroup = "7.0.measure"};
  for (int i = 0; i < 2; ++i) {
    REQUIRE(workers.start(start, {}, {}, {}, [&](const WorkerEnd&) {
      if (++ends == 2) loop.stop();
    }));
  }
  CHECK(std::filesystem::is_directory(own + "/nodestage-worker-7.0.measure"));
  CHECK(std::filesystem::is_directory(own + "/nodestage-worker-7.0.measure-2"));
  REQUIRE(loop.run());
}
