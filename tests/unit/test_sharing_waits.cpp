// What jobs with shared items wait for, and what they do not, without root and worker processes.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "sharing_site.hpp"

using namespace nodestage;
namespace fs = std::filesystem;

TEST_CASE("who finds all its items there does not wait for a place") {
  SharingSite site;
  site.stage(1);
  site.ask(2, {{k_b, "other"}});
  CHECK(site.stages(2));  // the only place
  site.ask(3, {{k_a, "data"}});
  CHECK(site.stages(3));
  site.ask(4, {{k_a, "data"}, {std::string(k_share_key_bytes, 'c'), "more"}});
  CHECK_FALSE(site.stages(4));
}

TEST_CASE("who wants what another job stages waits for it without a place, and is told so") {
  SharingSite site;
  site.ask(1, {{k_a, "data"}});
  site.ask(2, {{k_a, "data"}});
  site.config.staging.max_jobs = 8;
  site.pass(std::chrono::seconds(10));
  CHECK_FALSE(site.stages(2));
  CHECK(site.state_of(2) == "queued");
  site.wait(2);
  CHECK(site.progress().current == "job 1, which stages data.tar for both");
  CHECK(site.jobs->status(2, 0).at(0).row.others ==
        "waiting for job 1, which stages data.tar for both");
  site.finish(1);
  CHECK(site.role_of(2) == ShareRole::link);
}

TEST_CASE("who is only looked at waits for no other job, and is told so") {
  SharingSite site;
  site.ask(1, {{k_b, "other"}});
  REQUIRE(site.stages(1));  // the only place
  site.begin(2);
  site.wait(2);
  CHECK(site.progress().current == "a look at what it shares");
  CHECK(site.jobs->status(2, 0).at(0).row.others == "waiting for a look at what it shares");
  site.identify(2, {{k_a, "data"}});
  site.wait(2);
  CHECK(site.progress().current.empty());
  CHECK(site.progress().jobs_ahead == 1);
}

TEST_CASE("who gets no turn to be looked at in time stages for itself") {
  SharingSite site(8);
  for (std::uint32_t job = 1; job <= 5; ++job) site.begin(job);
  site.wait(5);
  CHECK(site.progress().current == "its turn to look at what it shares");
  site.pass(std::chrono::seconds(site.config.cache.identify_wait_s - 10));
  CHECK_FALSE(site.stages(5));
  site.pass(std::chrono::seconds(11));
  REQUIRE(site.stages(5));
  CHECK(site.order(5).empty());
  site.identify(1, {{k_a, "data"}});
  CHECK(site.order(1).at(0).role == ShareRole::lead);
}

// ---- cache.scope = "readers"

namespace {

using Names = std::vector<std::string>;
constexpr std::uint64_t k_large = 100ULL << 20;
const std::string k_c(k_share_key_bytes, 'c');

}  // namespace

TEST_CASE("attack: nobody waits for what the keeper stages of another job first") {
  ReadersSite site;
  site.ask(1, {{k_a, "large", k_large}, {k_b, "wanted"}});
  CHECK(site.keeps(1) == Names{"large"});
  site.ask(2, {{k_b, "wanted"}});
  REQUIRE(site.keeps(2) == Names{"wanted"});
  site.keep_one(2);
  CHECK(site.role_of(2) == ShareRole::link);
  CHECK(site.order(2)[0].note == "kept on this node, for all who may read it");
  site.keep_one(1);
  REQUIRE(site.order(1).size() == 2);
  CHECK(site.order(1)[1].note == "staged by job 2, for all who may read it");
}

TEST_CASE("attack: nobody waits for a job that has no place" * doctest::skip(::geteuid() != 0)) {
  ReadersSite site;
  site.config.staging.max_jobs_per_user = 1;
  site.accept(site.request(1));  // it has a place
  site.ask(2, {{k_a, "data"}});
  CHECK(site.keeps(2).empty());
  site.ask(3, {{k_a, "data"}}, SharingSite::user() + 1);
  REQUIRE(site.keeps(3) == Names{"data"});
  site.keep_one(3);
  // Both find it, and who finds all needs no place.
  CHECK(site.order(2).at(0).note == "staged by job 3, for all who may read it");
  CHECK(site.stages(3));
}

TEST_CASE("who has waited for the common copy for long stages for itself, with a note") {
  ReadersSite site;
  site.ask(1, {{k_a, "data"}});
  site.ask(2, {{k_a, "data"}});
  site.wait(2);
  CHECK(site.progress().current == "job 1, which stages data.tar for both");
  site.pass(std::chrono::seconds(site.config.cache.readers_wait_s - 10));
  CHECK_FALSE(site.stages(2));
  site.pass(std::chrono::seconds(11));
  CHECK(site.role_of(2) == ShareRole::own);
  CHECK(site.order(2)[0].note ==
        "nobody's job has staged it for all who may read it within 10 min 00 s");
  // The keeper goes on for the first one.
  site.keep_one(1);
  CHECK(site.order(1).at(0).role == ShareRole::link);
}

TEST_CASE("when the keeper fails or its job is cancelled, the next job's goes on, twice at most") {
  for (const bool is_cancelled : {false, true}) {
    for (const bool goes_well : {false, true}) {
      ReadersSite site;
      for (const std::uint32_t job : {1U, 2U, 3U}) site.ask(job, {{k_a, "data"}});
      if (is_cancelled) site.over(1);
      site.end_keep(1, k_dead);
      if (!is_cancelled) CHECK(site.order(1).at(0).note == "it could not be kept for others");
      REQUIRE(site.keeps(2) == Names{"data"});
      CHECK(site.keeps(3).empty());
      if (goes_well) site.keep(2, 1);
      site.end_keep(2, k_dead);
      REQUIRE(site.order(3).size() == 1);
      CHECK(site.order(3)[0].role == (goes_well ? ShareRole::link : ShareRole::own));
    }
  }
}

TEST_CASE("a place that a job got while others began to stage what it shares goes back" *
          doctest::skip(::geteuid() != 0)) {
  ReadersSite site;
  site.accept(site.request(1));  // it has a place
  site.ask(2, {{k_c, "often"}});
  site.ask(3, {{k_c, "often"}});
  site.config.staging.max_jobs = 1;
  site.ask(4, {{k_b, "wanted"}});
  site.end_keep(2, k_dead);
  for (const std::uint32_t job : {3U, 4U}) REQUIRE(site.keeps(job).empty());
  // With job 5's place come those of the others, whose user has more. Job 4 stages the one item for
  // it, and the other one cannot be shared any more, since job 3 has no directory.
  std::filesystem::remove_all(site.job_path(3));
  site.config.staging.max_jobs = 8;
  site.ask(5, {{k_b, "wanted"}, {k_c, "often"}}, SharingSite::user() + 1);
  REQUIRE(site.keeps(4) == Names{"wanted"});
  CHECK(site.keeps(5).empty());
  CHECK_FALSE(site.stages(5));
  REQUIRE(site.stages(2));
  // Those of jobs 1, 2 and 4 are taken.
  site.config.staging.max_jobs = 4;
  Begin begin = site.request(6);
  begin.uid += 2;
  site.accept(begin);
  CHECK(site.stages(6));
}

TEST_CASE("one process of the keeper stages a job's small items, and a large one by itself") {
  ReadersSite site;
  site.ask(1, {{k_a, "one"}, {k_b, "large", k_large}, {k_c, "two"}});
  REQUIRE(site.keeps(1) == Names{"one", "two"});
  SUBCASE("in time") { site.keep(1, 2); }
  SUBCASE("one takes too long: the other one is kept, and it gets a process to itself") {
    site.keep(1, 1);
    site.pass(std::chrono::seconds(11));
    CHECK(site.workers.killed.size() == 1);
  }
  site.end_keep(1, k_dead);
  while (!site.keeps(1).empty()) {
    CHECK(site.keeps(1).size() == 1);
    site.keep_one(1);
  }
  REQUIRE(site.order(1).size() == 3);
  for (const SharedItem& shared : site.order(1)) CHECK(shared.role == ShareRole::link);
  CHECK(site.kept() == 3);
}

// What a daemon that is started again knows of shared items: kept, half staged, and in use.

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
    site.say(1, WorkerPhase::done, site.do_all(1));
    site.start_daemon();
  }
  SUBCASE("and after the exchange, before the record") {
    const auto items = site.do_all(1);
    site.say(1, WorkerPhase::done, items);
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
  site.say(1, WorkerPhase::done, site.do_all(1));
  const std::string journal = site.scratch / "state/jobs/1.0.json";
  std::string text = file_text(journal);
  const std::string staging = "\"state\": 2";
  REQUIRE(has(text, staging));
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
    site.stage_all_but_late(1);
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
