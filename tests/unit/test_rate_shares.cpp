// The node's rates, as the jobs of several users share them.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/wire/status_file.hpp"
#include "daemon/root/tasks/job_workers.hpp"
#include "scratch.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

constexpr uid_t k_mallory = 1001;
constexpr uid_t k_victim = 1002;
constexpr std::uint64_t k_rate = 15'000'000;

struct SharesSite {
  Scratch scratch;
  Config config;
  Loop loop = std::move(*Loop::create());
  Areas areas = std::move(*Areas::open(scratch.path(), ::geteuid()));
  JobFiles files{areas};
  RateShares shares{loop, config, files};

  SharesSite() { config.stageout.max_rate_bytes = k_rate; }
  void join(std::uint32_t job, uid_t uid, WorkerTask task = WorkerTask::stage_out) {
    const auto file = must(shares.join({job, 0}, task, uid));
  }
  // As the worker's status file says it.
  void move(std::uint32_t job, std::uint64_t bytes, std::uint64_t from_nodes = 0,
            WorkerTask task = WorkerTask::stage_out) const {
    const auto status = must(files.new_status({job, 0}, task));
    StatusHeader header{.magic = k_status_magic,
                        .phase = static_cast<std::uint32_t>(WorkerPhase::working),
                        .items = 1};
    ItemRecord item{};
    item.bytes_read = item.bytes_written = bytes;
    item.bytes_from_nodes = from_nodes;
    REQUIRE(write_status_item(status.get(), 0, item));
    REQUIRE(write_status_header(status.get(), header));
  }
  // A worker reads it so.
  [[nodiscard]] std::uint64_t share(std::uint32_t job, RateKind kind = RateKind::deliver) const {
    const auto file = must(files.rate_file({job, 0}, kind));
    std::uint64_t rate = 0;
    REQUIRE(::pread(file.get(), &rate, sizeof rate, 0) == sizeof rate);
    return rate;
  }
  void pass(std::chrono::seconds time) {
    loop.advance(time);
    loop.after(std::chrono::milliseconds(0), [this] { loop.stop(); });
    REQUIRE(loop.run());
  }
};

}  // namespace

TEST_CASE("each user gets the same part of a rate, and each of their jobs the same part of that") {
  const std::vector<Mover> all{
      {k_mallory, true}, {k_mallory, true}, {k_mallory, true}, {k_victim, true}};
  CHECK(rate_share(600, all[0], all) == 100);
  CHECK(rate_share(600, all[3], all) == 300);
  CHECK(rate_share(0, all[3], all) == 0);
  CHECK(rate_share(1, all[0], all) == 1);  // 0 would be no limit
}

TEST_CASE("what stands still takes nothing from others, and may begin again") {
  std::vector<Mover> all(15, {k_mallory, false});
  all.push_back({k_victim, true});
  CHECK(rate_share(600, all[15], all) == 600);
  CHECK(rate_share(600, all[0], all) == 20);
  all[0].moves = true;
  CHECK(rate_share(600, all[0], all) == 300);
  CHECK(rate_share(600, all[1], all) == 20);
  CHECK(rate_share(600, all[15], all) == 300);
}

TEST_CASE("fifteen stopped stage-outs of one user leave the rate to another's") {
  SharesSite site;
  for (std::uint32_t job = 1; job <= 15; ++job) site.join(job, k_mallory);
  site.join(16, k_victim);
  CHECK(site.share(16) == k_rate / 2);
  CHECK(site.share(1) == k_rate / 30);
  std::uint64_t moved = 0;
  for (int second = 0; second < 120; ++second) {
    site.move(16, ++moved);
    site.pass(std::chrono::seconds(1));
  }
  CHECK(site.share(16) == k_rate);
  CHECK(site.share(1) == k_rate / 30);
  site.move(1, 1);
  site.pass(std::chrono::seconds(1));
  CHECK(site.share(16) == k_rate / 2);
  CHECK(site.share(1) == k_rate / 2);
  for (std::uint32_t job = 1; job <= 15; ++job) site.shares.leave({job, 0}, WorkerTask::stage_out);
  CHECK(site.share(16) == k_rate);
}

TEST_CASE("a slow rate makes pauses that are no standstill") {
  SharesSite site;
  site.config.stageout.max_rate_bytes = 1 << 20;
  site.join(1, k_mallory);
  site.join(2, k_victim);
  site.pass(std::chrono::seconds(20));
  CHECK(site.share(1) == 1 << 19);
  CHECK(site.share(2) == 1 << 19);
}

TEST_CASE(
    "a job's staging and its deliveries have a rate of their own, its relay has its staging's") {
  SharesSite site;
  site.config.read.max_rate_bytes = 1000;
  site.join(1, k_mallory, WorkerTask::relay);
  site.join(1, k_mallory, WorkerTask::stage);
  site.join(1, k_mallory, WorkerTask::push);
  CHECK(site.share(1, RateKind::read) == 1000);
  CHECK(site.share(1) == k_rate);
  site.join(2, k_victim, WorkerTask::stage);
  CHECK(site.share(1, RateKind::read) == 500);
  site.shares.leave({1, 0}, WorkerTask::stage);
  CHECK(site.share(2, RateKind::read) == 500);
  site.shares.leave({1, 0}, WorkerTask::relay);
  CHECK(site.share(2, RateKind::read) == 1000);
  CHECK_FALSE(must(site.shares.join({3, 0}, WorkerTask::identify, k_victim)));
}

TEST_CASE("what comes from other nodes takes nothing of the rate for reading") {
  SharesSite site;
  site.config.read.max_rate_bytes = k_rate;
  site.join(1, k_mallory, WorkerTask::stage);
  site.join(2, k_victim, WorkerTask::stage);
  std::uint64_t moved = 0;
  for (int second = 0; second < 30; ++second) {
    ++moved;
    site.move(1, moved, moved, WorkerTask::stage);
    site.move(2, moved, 0, WorkerTask::stage);
    site.pass(std::chrono::seconds(1));
  }
  CHECK(site.share(2, RateKind::read) == k_rate);
}

TEST_CASE("settings that change, and another daemon, are followed") {
  SharesSite site;
  site.join(1, k_mallory);
  site.config.stageout.max_rate_bytes = 0;
  site.shares.share();
  CHECK(site.share(1) == 0);
  site.config.stageout.max_rate_bytes = 77;
  RateShares next(site.loop, site.config, site.files);
  REQUIRE(next.join({1, 0}, WorkerTask::stage_out, k_mallory));
  CHECK(site.share(1) == 77);
}
