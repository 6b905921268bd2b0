// What a daemon that is started again knows of shared items: kept, half staged, and in use.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "sharing_site.hpp"

using namespace nodestage;
namespace fs = std::filesystem;

TEST_CASE("a daemon that is started again knows what is kept, and who uses it") {
  SharingSite site;
  site.stage(1);
  site.start_daemon();
  REQUIRE(site.kept() == 1);
  CHECK(site.jobs->cache(0)[0].jobs == 1);
  CHECK(site.role_asked(2) == ShareRole::link);
  site.over(2);
  site.over(1);
  CHECK(site.workers.find(WorkerTask::compare) != nullptr);
}

TEST_CASE("after another boot nothing that was kept counts") {
  SharingSite site;
  site.stage_and_end(1);
  site.boot = "another boot";
  site.start_daemon();
  CHECK(site.kept() == 0);
  CHECK(fs::is_empty(site.scratch / ".nodestage-cache"));
  CHECK(site.trees("trash") > 0);
}

TEST_CASE("a daemon that was killed while a leader staged") {
  SharingSite site;
  site.ask(1, {{k_a, "data"}});
  SUBCASE("and while the worker worked: the job begins anew") {
    site.start_daemon();
    CHECK(site.kept() == 0);
    site.identify(1, {{k_a, "data"}});
    CHECK(site.order(1).at(0).role == ShareRole::lead);
    site.finish(1);
  }
  SUBCASE("and after the worker was done: it is kept now") {
    REQUIRE(site.workers.say(WorkerTask::stage, 1, WorkerPhase::done, site.do_all(1)));
    site.start_daemon();
  }
  SUBCASE("and after the exchange, before the record") {
    const auto items = site.do_all(1);
    REQUIRE(site.workers.say(WorkerTask::stage, 1, WorkerPhase::done, items));
    const std::string draft = site.kept_directory(k_a) + ".draft";
    const std::string saved = site.scratch / "draft";
    fs::copy(draft, saved);
    site.end_stage(1);
    fs::remove(site.kept_directory(k_a) + ".record");
    fs::copy(saved, draft);
    site.start_daemon();
  }
  site.tick();
  CHECK(site.state_of(1) == "ready");
  CHECK(site.kept() == 1);
  CHECK(site.text_in(1, "data") == "of job 1");
  CHECK(site.role_asked(2) == ShareRole::link);
}

TEST_CASE("a worker that had done its work when the daemon died before it could note it") {
  SharingSite site;
  site.ask(1, {{k_a, "data"}});
  REQUIRE(site.workers.say(WorkerTask::stage, 1, WorkerPhase::done, site.do_all(1)));
  const std::string journal = site.scratch / "state/jobs/1.0.json";
  std::string text = file_text(journal);
  const std::string staging = "\"state\": 2";
  REQUIRE(text.find(staging) != std::string::npos);
  std::ofstream(journal) << text.replace(text.find(staging), staging.size(), "\"state\": 1");
  site.start_daemon();
  site.tick();
  CHECK(site.state_of(1) == "ready");
  CHECK(site.text_in(1, "data") == "of job 1");
  CHECK(site.kept() == 1);
}

TEST_CASE("a daemon that is started again does not wait for a job that stages nothing more") {
  SharingSite site;
  SUBCASE("it has failed") {
    site.ask(1, {{k_b, "data"}});
    site.end_stage(1, k_dead);
    CHECK(site.state_of(1) == "failed");
    site.start_daemon();
  }
  SUBCASE("the worker of its async items was killed") {
    site.ask(1, {{k_a, "data"}, {k_b, "late"}});
    auto items = site.do_all(1);
    items[1].state = static_cast<std::uint32_t>(ItemState::working);
    items[1].flags |= k_item_async;
    REQUIRE(site.workers.say(WorkerTask::stage, 1, WorkerPhase::ready, items));
    site.poll();
    SUBCASE("before") { site.end_stage(1, k_dead); }
    SUBCASE("meanwhile") {}
    site.start_daemon();
    CHECK(site.state_of(1) == "ready");
  }
  site.ask(2, {{k_b, "data"}});
  REQUIRE(site.stages(2));
  CHECK(site.order(2).at(0).role == ShareRole::lead);
  site.finish(2);
  site.over(1);
  CHECK(site.text_in(2, "data") == "of job 2");
}

TEST_CASE("async items that were staged while no daemon ran are kept") {
  SharingSite site;
  const auto items = site.stage_all_but_late(1);
  site.poll();
  site.finish_late(1, items);
  site.start_daemon();
  CHECK(site.kept() == 2);
  CHECK(site.text_in(1, "late") == "of job 1");
}

TEST_CASE("what was kept is there when its job begins anew after a restart of the daemon") {
  SharingSite site;
  site.stage_all_but_late(1);
  fs::copy(site.scratch / "state", site.scratch / "saved", fs::copy_options::recursive);
  site.poll();
  CHECK(site.kept() == 1);
  fs::remove_all(site.scratch / "state/jobs/");
  fs::copy(site.scratch / "saved", site.scratch / "state",
           fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  site.journal = std::move(*Journal::open(site.scratch / "state"));
  site.start_daemon();
  CHECK(site.state_of(1) == "queued");
  site.identify(1, {{k_a, "data"}, {k_b, "late"}});
  CHECK(site.order(1).at(0).role == ShareRole::link);
  CHECK(site.order(1).at(1).role == ShareRole::lead);
  CHECK(site.text_in(1, "data") == "of job 1");
}

TEST_CASE("a daemon that is started again compares what nobody uses") {
  SharingSite site;
  site.stage_and_end(1);
  REQUIRE(site.workers.find(WorkerTask::compare) != nullptr);
  site.start_daemon();
  site.compare("99999999999.0");
  CHECK(site.kept() == 0);
}
