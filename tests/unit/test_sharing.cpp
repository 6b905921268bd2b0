// What jobs do with shared items, without root and worker processes: who leads, who waits, who
// stages for itself.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>

#include "sharing_site.hpp"

using namespace nodestage;
namespace fs = std::filesystem;

TEST_CASE("the first job stages for all, and each further one gets a link") {
  SharingSite site;
  site.begin(1);
  CHECK_FALSE(site.stages(1));
  site.identify(1, {{k_a, "data"}});
  CHECK(site.role_of(1) == ShareRole::lead);
  CHECK(site.order(1)[0].path == site.kept_path(k_a, "data"));
  CHECK(site.is_pending(k_a));
  site.finish(1);
  CHECK(site.state_of(1) == "ready");
  CHECK(fs::is_symlink(site.job_path(1, "data")));
  CHECK(fs::read_symlink(site.job_path(1, "data")) == site.kept_path(k_a, "data"));
  CHECK(site.text_in(1, "data") == "of job 1");

  CHECK(site.role_asked(2) == ShareRole::link);
  CHECK(site.order(2)[0].note == "staged by job 1");
  site.finish(2);
  CHECK(site.state_of(2) == "ready");
  CHECK(site.text_in(2, "data") == "of job 1");
  const auto rows = site.jobs->cache(0);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].jobs == 2);
  CHECK(rows[0].hits == 1);
  CHECK(rows[0].job == 1);
  CHECK(site.jobs->cache(SharingSite::user() + 1).empty());
  const Metrics metrics = site.jobs->metrics();
  CHECK(metrics.counters.cache.hits == 1);
  CHECK(metrics.counters.cache.misses == 1);
  CHECK(metrics.counters.cache.bytes_not_read == 1000);
}

TEST_CASE("when the leader fails or is cancelled the next one leads") {
  SharingSite site(8);
  for (const std::uint32_t job : {1U, 2U, 3U}) site.ask(job, {{k_a, "data"}});
  SUBCASE("fails") {
    site.end_stage(1, k_dead);
    CHECK(site.state_of(1) == "failed");
  }
  SUBCASE("cancelled") { site.over(1); }
  SUBCASE("staged it, but it must not be kept") { site.finish(1, 0); }
  CHECK(site.role_of(2) == ShareRole::lead);
  CHECK_FALSE(site.stages(3));
  site.finish(2);
  CHECK(site.order(3).at(0).role == ShareRole::link);
  site.finish(3);
  CHECK(site.text_in(3, "data") == "of job 2");
}

TEST_CASE("after two failures each stages for itself") {
  SharingSite site(8);
  for (const std::uint32_t job : {1U, 2U, 3U, 4U}) site.ask(job, {{k_a, "data"}});
  site.end_stage(1, k_dead);
  site.end_stage(2, k_dead);
  for (const std::uint32_t job : {3U, 4U}) {
    CHECK(site.role_of(job) == ShareRole::own);
    CHECK(site.order(job)[0].note == "jobs before this one could not stage it");
    site.finish(job);
    CHECK(site.state_of(job) == "ready");
  }
  CHECK(site.kept() == 0);
}

TEST_CASE("jobs that name the same items in another order do not wait for each other") {
  SharingSite site;
  site.ask(1, {{k_a, "a"}, {k_b, "b"}});
  site.ask(2, {{k_b, "b"}, {k_a, "a"}});
  site.ask(3, {{k_b, "b"}, {std::string(k_share_key_bytes, 'c'), "c"}});
  SUBCASE("all goes well") {}
  SUBCASE("the first one fails") { site.end_stage(1, k_dead); }
  SUBCASE("the first one is cancelled") { site.over(1); }
  for (int round = 0; round < 3; ++round) {
    for (const std::uint32_t job : {1U, 2U, 3U})
      if (site.stages(job)) site.finish(job);
  }
  CHECK(site.state_of(2) == "ready");
  CHECK(site.state_of(3) == "ready");
  CHECK(site.kept() == 3);
}

TEST_CASE("what must not be kept is staged for the job alone, with the reason") {
  SharingSite site;
  site.ask(1, {{"", "data"}});
  CHECK(site.role_of(1) == ShareRole::own);
  CHECK(site.order(1)[0].note == "it was changed less than a minute ago");
  site.finish(1);
  CHECK(site.state_of(1) == "ready");
  CHECK(site.kept() == 0);
}

TEST_CASE("claims of a worker: no key, a path as a name, or one thing twice") {
  SharingSite site;
  for (const Wish& wish : {Wish{"../../etc", "data"}, Wish{k_a, ".."}, Wish{k_a, "a/b"},
                           Wish{std::string(k_share_key_bytes, 'A'), "data"}}) {
    site.ask(1, {wish});
    CHECK(site.role_of(1) == ShareRole::own);
    site.over(1);
  }
  site.ask(2, {{k_a, "data"}, {k_a, "data"}});
  REQUIRE(site.order(2).size() == 2);
  CHECK(site.order(2)[0].role == ShareRole::lead);
  CHECK(site.order(2)[1].role == ShareRole::own);
}

TEST_CASE("a worker that cannot identify: the job stages for itself") {
  SharingSite site;
  site.begin(1);
  REQUIRE(site.workers.end(WorkerTask::identify, {WorkerEnd::Kind::over_limit, "took too long"}));
  CHECK(site.stages(1));
  CHECK(site.order(1).empty());
  site.workers.is_refusing = true;
  site.begin(2);
  site.workers.is_refusing = false;
  site.finish(1);
  site.pass(std::chrono::seconds(1));
  CHECK(site.stages(2));
}

TEST_CASE("with the cache off, a shared item is the job's own") {
  SharingSite site;
  site.config.cache.enabled = false;
  site.jobs->settings_changed();
  site.begin(1);
  CHECK(site.workers.order<IdentifyOrder>().cache.empty());
  site.identify(1, {{k_a, "data"}});
  CHECK(site.role_of(1) == ShareRole::own);
  CHECK(site.order(1)[0].note == "this node keeps no shared data");
}

TEST_CASE("a cache that is not root's own is not used, and stops nothing else") {
  SharingSite site;
  ::chmod((site.scratch / ".nodestage-cache").c_str(), 0777);
  auto areas = Areas::open(site.scratch.path(), ::geteuid());
  REQUIRE(areas);
  site.areas = std::move(*areas);
  site.start_daemon();
  site.ask(1, {{k_a, "data"}});
  CHECK(site.order(1).at(0).note == "this node keeps no shared data");
  site.finish(1);
  CHECK(site.state_of(1) == "ready");
}

TEST_CASE("a tree that cannot be put into the cache is staged again, for the job alone") {
  SharingSite site(8);
  site.ask(1, {{k_a, "data"}});
  site.ask(2, {{k_a, "data"}});
  auto items = site.do_all(1);
  SUBCASE("it is not there") { fs::remove_all(site.job_path(1, "data")); }
  SUBCASE("its path leads elsewhere") {
    fs::remove_all(site.job_path(1, "data"));
    set_field(items[0].destination, site.job_path(1, "../alice.2.0/data"));
  }
  SUBCASE("a link leads to it") {
    fs::rename(site.job_path(1, "data"), site.scratch / "elsewhere");
    fs::create_symlink(site.scratch / "elsewhere", site.job_path(1, "data"));
  }
  SUBCASE("it can be written to") { ::chmod(site.job_path(1, "data").c_str(), 0600); }
  site.finish_with(1, items);
  CHECK(site.state_of(1) == "staging");
  CHECK(site.role_of(1) == ShareRole::own);
  CHECK(site.kept() == 0);
  site.finish_with(1, {});
  CHECK(site.state_of(1) == "ready");
  CHECK(site.role_of(2) == ShareRole::lead);
}

TEST_CASE("one that cannot be put into the cache while others are staged: the job stages again") {
  SharingSite site;
  site.stage_all_but_late(1);
  CHECK_FALSE(site.workers.order<StageOrder>().is_again);
  fs::remove_all(site.job_path(1, "data"));
  site.poll();
  CHECK(site.workers.killed.size() == 1);
  site.pass(std::chrono::seconds(10));
  CHECK(site.state_of(1) == "staging");
  CHECK(site.workers.killed.size() == 1);
  site.end_stage(1, k_dead);
  CHECK(site.state_of(1) == "staging");
  CHECK(site.workers.order<StageOrder>().is_again);
  CHECK(site.order(1).at(0).role == ShareRole::own);
  site.finish_with(1, {});
  CHECK(site.state_of(1) == "ready");
}

TEST_CASE("a tree that cannot be moved ends the sharing of its user alone") {
  if (::geteuid() != 0) return;  // there is no other user then
  SharingSite site;
  site.ask(1, {{k_a, "data"}});
  auto items = site.do_all(1);
  // A directory does not change places with one below it: EINVAL.
  fs::remove(site.job_path(1, "data"));
  fs::create_directory(site.job_path(1, "data"));
  fs::rename(site.scratch / ".nodestage-cache", site.job_path(1, "data/cache"));
  site.finish_with(1, items);
  fs::rename(site.job_path(1, "data/cache"), site.scratch / ".nodestage-cache");
  site.over(1);
  CHECK(site.role_asked(2, k_b) == ShareRole::own);
  site.over(2);
  Begin other = site.request(3);
  other.uid = SharingSite::user() + 1;
  other.request = R"({"shared":true})";
  site.accept(other);
  site.identify(3, {{k_a, "data"}});
  CHECK(site.order(3).at(0).role == ShareRole::lead);
}

TEST_CASE("an async item is kept when its worker has ended") {
  SharingSite site;
  const auto items = site.stage_all_but_late(1);
  site.poll();
  CHECK(site.state_of(1) == "ready");
  CHECK(site.kept() == 1);
  site.finish_late(1, items);
  site.end_stage(1);
  CHECK(site.kept() == 2);
  CHECK(site.text_in(1, "late") == "of job 1");
}

TEST_CASE("a source that was just changed is waited for, once") {
  SharingSite site;
  const auto young = [&site](std::uint32_t job, std::chrono::milliseconds rest) {
    ItemRecord item{.state = static_cast<std::uint32_t>(ItemState::done),
                    .flags = k_item_shared | k_item_unsettled,
                    .ended_ms = site.loop.wall_ms() + static_cast<std::uint64_t>(rest.count())};
    set_field(item.what, "data");
    set_field(item.source, "/p/data.tar");
    set_field(item.note, "it was changed less than a minute ago");
    REQUIRE(site.workers.say(WorkerTask::identify, job, WorkerPhase::done, {item}));
    REQUIRE(site.workers.end(WorkerTask::identify, k_code_0, job));
  };
  for (const std::uint32_t job : {1U, 2U}) {
    site.begin(job);
    young(job, std::chrono::seconds(40));
  }
  CHECK(site.workers.find(WorkerTask::identify) == nullptr);
  CHECK_FALSE(site.stages(1));
  site.wait(1);
  CHECK(site.progress().current ==
        "data.tar, which was just changed, to stay as it is for a while");
  site.pass(std::chrono::seconds(30));
  CHECK(site.workers.find(WorkerTask::identify) == nullptr);
  SUBCASE("it stays as it is: one stages it for both") {
    site.pass(std::chrono::seconds(11));
    for (const std::uint32_t job : {1U, 2U}) site.identify(job, {{k_a, "data"}});
    CHECK(site.order(1).at(0).role == ShareRole::lead);
    site.finish(1);
    CHECK(site.order(2).at(0).role == ShareRole::link);
  }
  SUBCASE("it is changed again: each stages it for itself") {
    site.pass(std::chrono::seconds(11));
    young(1, std::chrono::seconds(40));
    CHECK(site.role_of(1) == ShareRole::own);
    CHECK(site.order(1)[0].note == "it was changed less than a minute ago");
  }
  SUBCASE("the job is cancelled meanwhile") {
    site.over(1);
    site.pass(std::chrono::seconds(11));
    CHECK(site.workers.find(WorkerTask::identify, 1) == nullptr);
  }
}

namespace {

// The job has staged the first of its items, and the second is under way.
std::vector<ItemRecord> stage_the_first(SharingSite& site, std::uint32_t job) {
  auto items = site.do_all(job);
  items[1].state = static_cast<std::uint32_t>(ItemState::working);
  site.say(job, WorkerPhase::working, items);
  return items;
}

}  // namespace

TEST_CASE("an item is kept as soon as it is complete, and those who wait for it go on") {
  SharingSite site(8);
  site.ask(1, {{k_a, "data"}, {k_b, "late"}});
  site.ask(2, {{k_a, "data"}});
  stage_the_first(site, 1);
  CHECK(site.kept() == 0);
  site.poll();
  CHECK(site.kept() == 1);
  CHECK(site.state_of(1) == "staging");
  CHECK(site.role_of(2) == ShareRole::link);
}

TEST_CASE("a job that stages for others is looked at when something is complete, and not before") {
  SharingSite site;
  site.ask(1, {{k_a, "data"}, {k_b, "more"}});
  auto items = site.do_all(1);
  for (ItemRecord& item : items) item.state = static_cast<std::uint32_t>(ItemState::working);
  site.say(1, WorkerPhase::working, items);
  site.poll();
  CHECK(site.step_of(1) == Step::stage);
  items[0].state = static_cast<std::uint32_t>(ItemState::done);
  site.say(1, WorkerPhase::working, items);
  site.poll();
  CHECK(site.step_of(1) == Step::take_report);
  CHECK(site.kept() == 1);
}

TEST_CASE("what a job has staged is kept although it fails for another item") {
  SharingSite site(8);
  for (const std::uint32_t job : {1U, 2U}) site.ask(job, {{k_a, "data"}, {k_b, "late"}});
  auto items = stage_the_first(site, 1);
  SUBCASE("and says so") {
    items[1].state = static_cast<std::uint32_t>(ItemState::failed);
    site.say(1, WorkerPhase::failed, items);
  }
  SUBCASE("since it is killed") {}
  site.end_stage(1, k_dead);
  CHECK(site.state_of(1) == "failed");
  CHECK(site.kept() == 1);
  REQUIRE(site.order(2).size() == 2);
  CHECK(site.order(2)[0].role == ShareRole::link);
  CHECK(site.order(2)[1].role == ShareRole::lead);
  site.over(1);
  CHECK(site.text_in(2, "data").empty());  // not yet linked
  site.finish(2);
  CHECK(site.text_in(2, "data") == "of job 1");
}

TEST_CASE("one that cannot be put into the cache before the job is ready: it stages again") {
  SharingSite site;
  site.ask(1, {{k_a, "data"}, {k_b, "late"}});
  stage_the_first(site, 1);
  fs::remove_all(site.job_path(1, "data"));
  site.poll();
  CHECK(site.workers.killed.size() == 1);
  site.end_stage(1, k_dead);
  REQUIRE(site.stages(1));
  CHECK(site.order(1).at(0).role == ShareRole::own);
  CHECK_FALSE(site.is_pending(k_a));
}
