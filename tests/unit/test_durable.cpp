// What the daemon notes of its jobs while the disk is slow, and how often that is waited for.
#include <doctest/doctest.h>

#include <cerrno>
#include <string>
#include <vector>

#include "daemon_node.hpp"
#include "disk_calls.hpp"
#include "sharing_site.hpp"

using namespace nodestage;

namespace {

constexpr std::uint32_t k_jobs = 1000;
constexpr std::uint32_t k_few = 100;

template <typename Site>
void use_disk_thread(Site& site) {
  site.has_disk = true;
  site.start_daemon();
}

struct ServedSite : ServedNode {
  DiskThread disk{*loop};

  ServedSite() {
    journal->sync_by(disk);
    REQUIRE(disk.start());
    listen();
  }
  // A job without a request, which no worker stages.
  [[nodiscard]] Begin begin() const {
    Begin begin = record(7, JobState::queued).begin;
    begin.request.clear();
    return begin;
  }
};

}  // namespace

TEST_CASE("sixty-four shared items: the loop waits for no disk, and a thread a few times") {
  SharingSite site;
  use_disk_thread(site);
  Syncs syncs;
  std::vector<Wish> wishes;
  for (int i = 0; i < 64; ++i) {
    const std::string number = std::to_string(100 + i);
    wishes.push_back({k_a.substr(number.size()) + number, "data" + number});
  }
  site.ask(1, wishes);
  site.finish(1);
  CHECK(site.state_of(1) == "ready");
  CHECK(site.kept() == 64);
  site.over(1);
  site.await_disk();
  CHECK(syncs.in_this_thread() == 0);
  CHECK(syncs.in_all() < 32);
}

TEST_CASE("a thousand jobs on a slow disk: the loop goes on, and each file is synced once") {
  JobSite site;
  use_disk_thread(site);
  Syncs syncs;
  syncs.hold();
  for (std::uint32_t job = 1; job <= k_jobs; ++job) site.accept(site.request(job));
  CHECK(site.jobs->status(0, 0).size() == k_jobs);
  CHECK(syncs.in_this_thread() == 0);
  syncs.release();
  site.await_disk();
  CHECK(syncs.in_this_thread() == 0);
  CHECK(syncs.in_all() < 2 * k_jobs + k_jobs / 8);
  CHECK(site.journal.load().records.size() == k_jobs);
}

TEST_CASE("the changes of many jobs that the disk was too slow for are written once") {
  JobSite site;
  use_disk_thread(site);
  Syncs syncs;
  for (std::uint32_t job = 1; job <= k_few; ++job) site.accept(site.request(job));
  site.await_disk();
  const std::size_t before = syncs.in_all();
  syncs.hold();
  const auto exit_with = [&site](std::uint32_t job, std::uint32_t step, std::uint32_t status) {
    Exited exited{.job = job, .step = step, .wait_status = status};
    as<Accepted>(site.jobs->exited(exited));
  };
  exit_with(1, 0, 1);
  syncs.await_held();
  for (std::uint32_t step = 0; step < 4; ++step)
    for (std::uint32_t job = 1; job <= k_few; ++job) exit_with(job, step, 256);
  syncs.release();
  site.await_disk();
  CHECK(syncs.in_this_thread() == 0);
  CHECK(syncs.in_all() - before < k_few + k_few / 16);
  for (const JobRecord& record : site.journal.load().records) CHECK(record.last_step == 3);
}

TEST_CASE("a daemon that is killed while the disk is slow: the next one knows what it had noted") {
  JobSite site;
  use_disk_thread(site);
  Syncs syncs;
  syncs.hold();
  site.accept(site.request(1));
  syncs.await_held();
  site.accept(site.request(2));
  const auto next = must(Journal::open(site.scratch / "state"));
  const auto loaded = next.load();
  CHECK(loaded.faults.empty());
  REQUIRE(loaded.records.size() == 2);
  for (const JobRecord& record : loaded.records) {
    CHECK(to_text(record.state) == site.state_of(record.begin.job));
    CHECK(record.begin.request == "{}");
  }
}

TEST_CASE("a record that the disk does not take is known as unsaved, and written again") {
  const Scratch scratch;
  Loop loop = std::move(*Loop::create());
  auto journal = must(Journal::open(scratch / "state"));
  Counters counters;
  DiskThread disk(loop);
  journal.sync_by(disk);
  REQUIRE(disk.start());
  JobTable table(loop, journal, counters);
  spdlog::set_level(spdlog::level::off);
  const auto await = [&] {
    table.then([&loop] { loop.stop(); });
    REQUIRE(loop.run());
  };
  Syncs syncs;
  JobRecord record{.begin = {.job = 1}};
  syncs.fail_with(EIO);
  REQUIRE(table.add(record));
  await();
  CHECK(table.unsaved({1, 0}));
  syncs.fail_with(0);
  loop.after(std::chrono::seconds(6), [&loop] { loop.stop(); });
  loop.advance(std::chrono::seconds(6));
  REQUIRE(loop.run());
  await();
  CHECK_FALSE(table.unsaved({1, 0}));
  CHECK(journal.load().records.size() == 1);
}

TEST_CASE("a prolog is answered when its job is durable; who only asks does not wait for that") {
  if (skipped_without_root()) return;
  ServedSite site;
  Syncs syncs;
  syncs.hold();
  DaemonConnection prolog = site.ask(site.begin());
  CHECK_FALSE(site.answer(prolog, 5));
  DaemonConnection other = site.ask(StatusQuery{});
  as<StatusRow>(must(site.answer(other)));
  CHECK_FALSE(site.answer(prolog, 1));
  syncs.release();
  as<Accepted>(must(site.answer(prolog)));
}

TEST_CASE("a prolog whose job the disk does not take is refused, with the cause") {
  if (skipped_without_root()) return;
  ServedSite site;
  Syncs syncs;
  syncs.fail_with(EIO);
  DaemonConnection prolog = site.ask(site.begin());
  const auto answer = must(site.answer(prolog));
  CHECK(as<Refused>(answer).what.starts_with("the journal cannot be written: "));
}
