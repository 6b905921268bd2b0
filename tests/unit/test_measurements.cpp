// How large held results are, which can grow while they are held.
#include <doctest/doctest.h>

#include "job_site.hpp"

using namespace nodestage;

namespace {

constexpr std::uint32_t k_measured_job = 7;

}  // namespace

TEST_CASE("held results are measured again at each try, and while none is made") {
  JobSite site;
  site.jobs->begin(site.request(k_measured_job));
  site.workers.finish(WorkerTask::stage, WorkerPhase::done);
  site.wait(k_measured_job);
  site.end(k_measured_job);
  site.workers.finish(WorkerTask::stage_out, WorkerPhase::failed, "no space left");
  const auto measure = [&site](std::uint64_t bytes) {
    ItemRecord item{};
    item.bytes_total = bytes;
    item.files = 3;
    REQUIRE(site.workers.say(WorkerTask::measure, k_measured_job, WorkerPhase::done, {item}));
    REQUIRE(site.workers.end(WorkerTask::measure));
    CHECK(site.jobs->held(0).at(0).bytes == bytes);
    CHECK(site.jobs->held(0).at(0).inodes == 3);
  };
  measure(4096);
  CHECK(site.workers.find(WorkerTask::measure) == nullptr);
  site.pass(std::chrono::seconds(site.config.hold.retry_first_s + 1));
  site.workers.finish(WorkerTask::stage_out, WorkerPhase::failed, "no space left");
  measure(600 << 20);
  CHECK(site.journal.load().records.at(0).hold.inodes == 3);
  // A target that no try can reach: no worker that stages out comes to an end.
  site.config.hold.retry_first_s = site.config.hold.retry_most_s = 86'400;
  site.start_daemon();
  site.pass(std::chrono::seconds(3700));
  site.workers.end(WorkerTask::stage_out);
  measure(700 << 20);
}
