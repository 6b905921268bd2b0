// What jobs do with shared items, without root and worker processes: who leads, who waits, what is
// kept, and what a daemon that was killed leaves behind.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "common/text/human.hpp"
#include "job_site.hpp"

using namespace nodestage;
namespace fs = std::filesystem;

namespace {

const std::string k_a(k_share_key_bytes, 'a');
const std::string k_b(k_share_key_bytes, 'b');
const WorkerEnd k_dead{WorkerEnd::Kind::ended, "was killed by signal 9"};

struct Wish {
  std::string key;   // "": it must not be kept
  std::string name;  // of the tree
};

struct SharingSite : JobSite {
  SharingSite() {
    config.cache.keep_free_percent = 0;
    config.staging.max_jobs = 1;
  }
  [[nodiscard]] std::string job_path(std::uint32_t job, const std::string& name = "") const {
    return scratch / ("alice." + std::to_string(job) + ".0" + (name.empty() ? "" : "/" + name));
  }
  [[nodiscard]] std::string entry(const std::string& key) const {
    return std::to_string(user()) + "." + key;
  }
  [[nodiscard]] std::string kept_path(const std::string& key, const std::string& name) const {
    return scratch / (".nodestage-cache/" + entry(key) + "/" + name);
  }
  // A link to itself until the tree is there.
  [[nodiscard]] bool is_pending(const std::string& key) const {
    const std::string path = kept_path(key, "data");
    return fs::is_symlink(path) && fs::read_symlink(path) == path;
  }
  void begin(std::uint32_t job) {
    Begin begin = request(job);
    begin.request = R"({"shared":true})";
    REQUIRE(std::holds_alternative<Accepted>(jobs->begin(begin)));
  }
  // The job's worker has found out what it wants.
  void identify(std::uint32_t job, const std::vector<Wish>& wishes) {
    std::vector<ItemRecord> items;
    for (const Wish& wish : wishes) {
      ItemRecord item{};
      item.state = static_cast<std::uint32_t>(ItemState::done);
      item.flags = k_item_shared;
      item.bytes_total = 1000;
      set_field(item.name, wish.key);
      set_field(item.what, wish.name);
      set_field(item.source, "/p/" + wish.name + ".tar");
      set_field(item.note, wish.key.empty() ? "it was changed less than a minute ago" : "");
      items.push_back(item);
    }
    REQUIRE(workers.say(WorkerTask::identify, job, WorkerPhase::done, items));
    REQUIRE(workers.end(WorkerTask::identify, {WorkerEnd::Kind::ended, "ended with code 0"}, job));
  }
  void ask(std::uint32_t job, const std::vector<Wish>& wishes) {
    begin(job);
    identify(job, wishes);
  }
  [[nodiscard]] std::vector<SharedItem> order(std::uint32_t job) {
    const auto* started = workers.find(WorkerTask::stage, job);
    return started == nullptr ? std::vector<SharedItem>() : started->order.shared;
  }
  [[nodiscard]] bool stages(std::uint32_t job) {
    return workers.find(WorkerTask::stage, job) != nullptr;
  }
  // The worker's records of what it was told to do, which it has done.
  std::vector<ItemRecord> do_all(std::uint32_t job, std::uint32_t flag_of_leads = k_item_whole) {
    std::vector<ItemRecord> items;
    for (const SharedItem& shared : order(job)) {
      const std::string name =
          shared.path.empty() ? "own" + std::to_string(shared.item) : last_part(shared.path);
      const std::string at = job_path(job, name);
      ItemRecord item{};
      item.state = static_cast<std::uint32_t>(ItemState::done);
      item.flags = k_item_shared;
      set_field(item.destination, at);
      if (shared.role == ShareRole::link) {
        fs::create_symlink(shared.path, at);
        item.flags |= k_item_linked;
      } else {
        // A file: without root, a directory that is not writable cannot be moved.
        std::ofstream(at) << "of job " << job;
        ::chmod(at.c_str(), 0400);
        if (::geteuid() == 0) REQUIRE(::chown(at.c_str(), user(), group()) == 0);
        if (shared.role == ShareRole::lead) item.flags |= flag_of_leads;
      }
      items.push_back(item);
    }
    return items;
  }
  void finish(std::uint32_t job, std::uint32_t flag_of_leads = k_item_whole) {
    const auto items = do_all(job, flag_of_leads);
    REQUIRE(workers.say(WorkerTask::stage, job, WorkerPhase::done, items));
    end_stage(job);
  }
  void end_stage(std::uint32_t job,
                 const WorkerEnd& how = {WorkerEnd::Kind::ended, "ended with code 0"}) {
    REQUIRE(workers.end(WorkerTask::stage, how, job));
  }
  // Its results are delivered, and all is over.
  void over(std::uint32_t job) {
    end(job);
    if (workers.find(WorkerTask::stage, job) != nullptr) end_stage(job, k_dead);
    if (workers.find(WorkerTask::stage_out, job) == nullptr) return;
    workers.say(WorkerTask::stage_out, job, WorkerPhase::done, {});
    workers.end(WorkerTask::stage_out, {WorkerEnd::Kind::ended, "ended with code 0"}, job);
  }
  // The comparison of the one tree that waits for it.
  void compare(const std::string& newest) {
    ItemRecord item{};
    set_field(item.name, newest);
    auto* started = workers.find(WorkerTask::compare);
    REQUIRE(started != nullptr);
    REQUIRE(workers.say(WorkerTask::compare, started->order.job, WorkerPhase::done, {item}));
    REQUIRE(workers.end(WorkerTask::compare));
  }
  [[nodiscard]] std::size_t kept() const { return jobs->cache(0).size(); }
  [[nodiscard]] std::string text_in(std::uint32_t job, const std::string& name) const {
    std::ifstream file(job_path(job, name));
    return {std::istreambuf_iterator<char>(file), {}};
  }
};

}  // namespace

TEST_CASE("the first job stages for all, and each further one gets a link") {
  SharingSite site;
  site.begin(1);
  CHECK_FALSE(site.stages(1));
  site.identify(1, {{k_a, "data"}});
  REQUIRE(site.order(1).size() == 1);
  CHECK(site.order(1)[0].role == ShareRole::lead);
  CHECK(site.order(1)[0].path == site.kept_path(k_a, "data"));
  CHECK(site.is_pending(k_a));
  site.finish(1);
  CHECK(site.state_of(1) == "ready");
  CHECK(fs::is_symlink(site.job_path(1, "data")));
  CHECK(fs::read_symlink(site.job_path(1, "data")) == site.kept_path(k_a, "data"));
  CHECK(site.text_in(1, "data") == "of job 1");

  site.ask(2, {{k_a, "data"}});
  REQUIRE(site.order(2).size() == 1);
  CHECK(site.order(2)[0].role == ShareRole::link);
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

TEST_CASE("who finds all its items there does not wait for a place") {
  SharingSite site;
  site.ask(1, {{k_a, "data"}});
  site.finish(1);
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
  const auto* progress = std::get_if<Progress>(&site.answers.back());
  REQUIRE(progress != nullptr);
  CHECK(progress->current == "job 1, which stages data.tar for both");
  site.finish(1);
  REQUIRE(site.order(2).size() == 1);
  CHECK(site.order(2)[0].role == ShareRole::link);
}

TEST_CASE("when the leader fails or is cancelled the next one leads") {
  SharingSite site;
  site.config.staging.max_jobs = 8;
  for (const std::uint32_t job : {1U, 2U, 3U}) site.ask(job, {{k_a, "data"}});
  SUBCASE("fails") {
    site.end_stage(1, k_dead);
    CHECK(site.state_of(1) == "failed");
  }
  SUBCASE("cancelled") { site.over(1); }
  SUBCASE("staged it, but it must not be kept") { site.finish(1, 0); }
  REQUIRE(site.order(2).size() == 1);
  CHECK(site.order(2)[0].role == ShareRole::lead);
  CHECK_FALSE(site.stages(3));
  site.finish(2);
  CHECK(site.order(3).at(0).role == ShareRole::link);
  site.finish(3);
  CHECK(site.text_in(3, "data") == "of job 2");
}

TEST_CASE("after two failures each stages for itself") {
  SharingSite site;
  site.config.staging.max_jobs = 8;
  for (const std::uint32_t job : {1U, 2U, 3U, 4U}) site.ask(job, {{k_a, "data"}});
  site.end_stage(1, k_dead);
  site.end_stage(2, k_dead);
  for (const std::uint32_t job : {3U, 4U}) {
    REQUIRE(site.order(job).size() == 1);
    CHECK(site.order(job)[0].role == ShareRole::own);
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
    for (const std::uint32_t job : {1U, 2U, 3U}) {
      if (site.stages(job)) site.finish(job);
    }
  }
  CHECK(site.state_of(2) == "ready");
  CHECK(site.state_of(3) == "ready");
  CHECK(site.kept() == 3);
}

TEST_CASE("what must not be kept is staged for the job alone, with the reason") {
  SharingSite site;
  site.ask(1, {{"", "data"}});
  REQUIRE(site.order(1).size() == 1);
  CHECK(site.order(1)[0].role == ShareRole::own);
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
    REQUIRE(site.order(1).size() == 1);
    CHECK(site.order(1)[0].role == ShareRole::own);
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

TEST_CASE("what the site does not keep") {
  SharingSite site;
  site.config.cache.enabled = false;
  site.jobs->settings_changed();
  site.begin(1);
  CHECK(site.workers.find(WorkerTask::identify)->order.cache.empty());
  site.identify(1, {{k_a, "data"}});
  REQUIRE(site.order(1).size() == 1);
  CHECK(site.order(1)[0].role == ShareRole::own);
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
  SharingSite site;
  site.config.staging.max_jobs = 8;
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
  REQUIRE(site.workers.say(WorkerTask::stage, 1, WorkerPhase::done, items));
  site.end_stage(1);
  CHECK(site.state_of(1) == "staging");
  REQUIRE(site.order(1).size() == 1);
  CHECK(site.order(1)[0].role == ShareRole::own);
  CHECK(site.kept() == 0);
  REQUIRE(site.workers.say(WorkerTask::stage, 1, WorkerPhase::done, {}));
  site.end_stage(1);
  CHECK(site.state_of(1) == "ready");
  REQUIRE(site.order(2).size() == 1);
  CHECK(site.order(2)[0].role == ShareRole::lead);
}

TEST_CASE("one that cannot be put into the cache while others are staged: the job stages again") {
  SharingSite site;
  site.ask(1, {{k_a, "data"}, {k_b, "late"}});
  auto items = site.do_all(1);
  CHECK_FALSE(site.workers.find(WorkerTask::stage)->order.is_again);
  fs::remove_all(site.job_path(1, "data"));
  items[1].state = static_cast<std::uint32_t>(ItemState::working);
  items[1].flags |= k_item_async;
  REQUIRE(site.workers.say(WorkerTask::stage, 1, WorkerPhase::ready, items));
  site.wait(1);
  CHECK(site.workers.killed.size() == 1);
  site.pass(std::chrono::seconds(10));
  CHECK(site.state_of(1) == "staging");
  CHECK(site.workers.killed.size() == 1);
  site.end_stage(1, k_dead);
  CHECK(site.state_of(1) == "staging");
  REQUIRE(site.stages(1));
  CHECK(site.workers.find(WorkerTask::stage)->order.is_again);
  CHECK(site.order(1).at(0).role == ShareRole::own);
  REQUIRE(site.workers.say(WorkerTask::stage, 1, WorkerPhase::done, {}));
  site.end_stage(1);
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
  REQUIRE(site.workers.say(WorkerTask::stage, 1, WorkerPhase::done, items));
  site.end_stage(1);
  fs::rename(site.job_path(1, "data/cache"), site.scratch / ".nodestage-cache");
  site.over(1);
  site.ask(2, {{k_b, "data"}});
  CHECK(site.order(2).at(0).role == ShareRole::own);
  site.over(2);
  Begin other = site.request(3);
  other.uid = SharingSite::user() + 1;
  other.request = R"({"shared":true})";
  REQUIRE(std::holds_alternative<Accepted>(site.jobs->begin(other)));
  site.identify(3, {{k_a, "data"}});
  CHECK(site.order(3).at(0).role == ShareRole::lead);
}

TEST_CASE("an entry stays while a job uses it, and is compared when the last one has gone") {
  SharingSite site;
  site.ask(1, {{k_a, "data"}});
  site.finish(1);
  site.ask(2, {{k_a, "data"}});
  site.finish(2);
  CHECK(site.jobs->drop(0, {}).size() == 1);
  CHECK(site.kept() == 1);
  site.over(1);
  CHECK(site.workers.find(WorkerTask::compare) == nullptr);
  site.over(2);
  SUBCASE("unchanged: it is there for the next job") {
    site.compare("1.0");
    CHECK(site.kept() == 1);
    site.ask(3, {{k_a, "data"}});
    CHECK(site.order(3).at(0).role == ShareRole::link);
  }
  SUBCASE("changed: it is dropped") {
    site.compare("99999999999.0");
    CHECK(site.kept() == 0);
    CHECK(site.trees("trash") > 0);
    CHECK_FALSE(fs::exists(site.kept_path(k_a, "data")));
  }
  SUBCASE("it could not be looked at: it is dropped") {
    REQUIRE(site.workers.end(WorkerTask::compare, k_dead));
    CHECK(site.kept() == 0);
  }
  SUBCASE("changed, and in use again: no further job uses it") {
    site.ask(3, {{k_a, "data"}});
    site.compare("99999999999.0");
    CHECK(site.kept() == 1);
    site.ask(4, {{k_a, "data"}});
    site.finish(3);
    CHECK(site.order(4).at(0).role == ShareRole::own);
    site.over(3);
    CHECK(site.kept() == 0);
  }
  SUBCASE("its user drops it") {
    CHECK(site.jobs->drop(SharingSite::user() + 1, {}).empty());
    CHECK(site.jobs->drop(SharingSite::user(), {"1.b"}).empty());
    CHECK(site.jobs->drop(SharingSite::user(), {site.entry(k_a)}).size() == 1);
    CHECK(site.kept() == 0);
  }
}

TEST_CASE("what is not used goes by age, by size, and when the disk fills") {
  SharingSite site;
  for (const auto& [job, key] : {std::pair(1U, k_a), std::pair(2U, k_b)}) {
    site.ask(job, {{key, "data"}});
    auto items = site.do_all(job);
    items[0].bytes_written = UINT64_MAX;
    REQUIRE(site.workers.say(WorkerTask::stage, job, WorkerPhase::done, items));
    site.end_stage(job);
    site.pass(std::chrono::seconds(10));
    if (job == 1) {
      site.over(1);
      site.compare("1.0");
    }
  }
  REQUIRE(site.kept() == 2);
  SUBCASE("age") {
    site.config.cache.max_age_s = 60;
    site.pass(std::chrono::seconds(120));
  }
  SUBCASE("size, with figures that overflow") {
    site.config.cache.max_bytes = 1 << 20;
    site.pass(std::chrono::seconds(10));
  }
  SUBCASE("free space") {
    site.workers.end(WorkerTask::remove);
    for (const auto& tree : site.areas.list_trash())
      fs::remove_all(site.scratch / (".nodestage/trash/" + tree.name));
    site.config.cache.keep_free_percent = 100;
    site.pass(std::chrono::seconds(10));
  }
  SUBCASE("switched off") {
    site.config.cache.enabled = false;
    site.jobs->settings_changed();
    site.pass(std::chrono::seconds(10));
  }
  REQUIRE(site.kept() == 1);
  CHECK(site.jobs->cache(0)[0].job == 2);  // in use
}

TEST_CASE("a tree whose removal does not end does not keep what is kept on a full disk") {
  SharingSite site;
  for (const auto& [job, key] : {std::pair(1U, k_a), std::pair(2U, k_b)}) {
    site.ask(job, {{key, "data"}});
    site.finish(job);
    site.over(job);
    site.compare("1.0");
  }
  REQUIRE(site.trees("trash") > 0);
  site.config.cache.keep_free_percent = 100;
  site.pass(std::chrono::seconds(8));
  CHECK(site.kept() == 2);  // what is removed may be enough
  site.pass(std::chrono::seconds(80));
  CHECK(site.kept() == 0);
}

TEST_CASE("a daemon that is started again knows what is kept, and who uses it") {
  SharingSite site;
  site.ask(1, {{k_a, "data"}});
  site.finish(1);
  site.start_daemon();
  REQUIRE(site.kept() == 1);
  CHECK(site.jobs->cache(0)[0].jobs == 1);
  site.ask(2, {{k_a, "data"}});
  CHECK(site.order(2).at(0).role == ShareRole::link);
  site.over(2);
  site.over(1);
  CHECK(site.workers.find(WorkerTask::compare) != nullptr);
}

TEST_CASE("after another boot nothing that was kept counts") {
  SharingSite site;
  site.ask(1, {{k_a, "data"}});
  site.finish(1);
  site.over(1);
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
    const std::string draft = site.scratch / (".nodestage-cache/" + site.entry(k_a) + ".draft");
    const std::string saved = site.scratch / "draft";
    fs::copy(draft, saved);
    site.end_stage(1);
    fs::remove(site.scratch / (".nodestage-cache/" + site.entry(k_a) + ".record"));
    fs::copy(saved, draft);
    site.start_daemon();
  }
  CHECK(site.state_of(1) == "ready");
  CHECK(site.kept() == 1);
  CHECK(site.text_in(1, "data") == "of job 1");
  site.ask(2, {{k_a, "data"}});
  CHECK(site.order(2).at(0).role == ShareRole::link);
}

TEST_CASE("a worker that had done its work when the daemon died before it could note it") {
  SharingSite site;
  site.ask(1, {{k_a, "data"}});
  REQUIRE(site.workers.say(WorkerTask::stage, 1, WorkerPhase::done, site.do_all(1)));
  const std::string journal = site.scratch / "state/jobs/1.0.json";
  std::ifstream file(journal);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::string staging = "\"state\": 2";
  REQUIRE(text.find(staging) != std::string::npos);
  std::ofstream(journal) << text.replace(text.find(staging), staging.size(), "\"state\": 1");
  site.start_daemon();
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
    site.wait(1);
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
  site.ask(1, {{k_a, "data"}, {k_b, "late"}});
  auto items = site.do_all(1);
  items[1].state = static_cast<std::uint32_t>(ItemState::working);
  items[1].flags |= k_item_async;
  REQUIRE(site.workers.say(WorkerTask::stage, 1, WorkerPhase::ready, items));
  site.wait(1);
  items[1].state = static_cast<std::uint32_t>(ItemState::done);
  REQUIRE(site.workers.say(WorkerTask::stage, 1, WorkerPhase::done, items));
  site.start_daemon();
  CHECK(site.kept() == 2);
  CHECK(site.text_in(1, "late") == "of job 1");
}

TEST_CASE("what was kept is there when its job begins anew after a restart of the daemon") {
  SharingSite site;
  site.ask(1, {{k_a, "data"}, {k_b, "late"}});
  auto items = site.do_all(1);
  items[1].state = static_cast<std::uint32_t>(ItemState::working);
  items[1].flags |= k_item_async;
  REQUIRE(site.workers.say(WorkerTask::stage, 1, WorkerPhase::ready, items));
  fs::copy(site.scratch / "state", site.scratch / "saved", fs::copy_options::recursive);
  site.wait(1);
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

TEST_CASE("a half written entry is never whole") {
  SharingSite site;
  site.ask(1, {{k_a, "data"}});
  site.finish(1);
  site.over(1);
  const std::string record = site.scratch / (".nodestage-cache/" + site.entry(k_a) + ".record");
  SUBCASE("no record") { fs::remove(record); }
  SUBCASE("an empty record") { std::ofstream(record).close(); }
  SUBCASE("a record of another entry") { std::ofstream(record) << R"({"version":1,"name":"1.b"})"; }
  SUBCASE("no tree") { fs::remove_all(site.kept_path(k_a, "data")); }
  SUBCASE("what is left of an eviction") {
    fs::remove(record);
    fs::remove_all(site.kept_path(k_a, "data"));
  }
  site.start_daemon();
  CHECK(site.kept() == 0);
  CHECK(fs::is_empty(site.scratch / ".nodestage-cache"));
}

TEST_CASE("an entry that its user has made writable stays while a job uses it") {
  SharingSite site;
  site.ask(1, {{k_a, "data"}});
  site.finish(1);
  ::chmod(site.kept_path(k_a, "data").c_str(), 0600);
  site.start_daemon();
  CHECK(site.text_in(1, "data") == "of job 1");
  site.over(1);
  site.compare("99999999999.0");
  CHECK(site.kept() == 0);
}

TEST_CASE("what cannot be removed is tried again, and does not stand before others") {
  SharingSite site;
  for (const auto& [job, key] : {std::pair(1U, k_a), std::pair(2U, k_b)}) {
    site.ask(job, {{key, "data"}});
    auto items = site.do_all(job);
    items[0].bytes_written = 1000;
    REQUIRE(site.workers.say(WorkerTask::stage, job, WorkerPhase::done, items));
    site.end_stage(job);
    site.over(job);
    site.compare("1.0");
  }
  const std::string in_the_way = site.kept_path(k_a, "mount");
  std::ofstream(in_the_way).close();
  SUBCASE("nor can it be opened") {
    rlimit limit{};
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
    const rlimit none{0, limit.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
    site.jobs->drop(0, {site.entry(k_a)});
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  }
  site.jobs->drop(0, {site.entry(k_a)});
  CHECK(site.kept() == 2);
  site.ask(3, {{k_a, "data"}});
  CHECK(site.order(3).at(0).role == ShareRole::own);
  site.over(3);
  site.config.cache.max_bytes = 1;
  SUBCASE("others go") {
    site.pass(std::chrono::seconds(10));
    REQUIRE(site.kept() == 1);
    CHECK(site.jobs->cache(0)[0].name == site.entry(k_a));
  }
  fs::remove(in_the_way);
  site.pass(std::chrono::seconds(10));
  CHECK(fs::is_empty(site.scratch / ".nodestage-cache"));
}

TEST_CASE("an async item is kept when its worker has ended") {
  SharingSite site;
  site.ask(1, {{k_a, "data"}, {k_b, "late"}});
  auto items = site.do_all(1);
  items[1].state = static_cast<std::uint32_t>(ItemState::working);
  items[1].flags |= k_item_async;
  REQUIRE(site.workers.say(WorkerTask::stage, 1, WorkerPhase::ready, items));
  site.wait(1);
  CHECK(site.state_of(1) == "ready");
  CHECK(site.kept() == 1);
  items[1].state = static_cast<std::uint32_t>(ItemState::done);
  REQUIRE(site.workers.say(WorkerTask::stage, 1, WorkerPhase::done, items));
  site.end_stage(1);
  CHECK(site.kept() == 2);
  CHECK(site.text_in(1, "late") == "of job 1");
}

TEST_CASE("at the user's quota what is kept and not used goes, and the job stages again, once") {
  SharingSite site;
  site.ask(1, {{k_a, "data"}});
  site.finish(1);
  site.over(1);
  REQUIRE(site.kept() == 1);
  Begin plain = site.request(2);
  REQUIRE(std::holds_alternative<Accepted>(site.jobs->begin(plain)));
  const auto fail = [&site] {
    ItemRecord item{};
    item.state = static_cast<std::uint32_t>(ItemState::failed);
    item.flags = k_item_over_quota;
    REQUIRE(site.workers.say(WorkerTask::stage, 2, WorkerPhase::failed, {item}));
    site.end_stage(2);
  };
  fail();
  CHECK(site.state_of(2) == "queued");
  CHECK(site.kept() == 0);
  site.pass(std::chrono::seconds(2));
  CHECK_FALSE(site.stages(2));  // not before it is removed
  for (const auto& tree : site.areas.list_trash())
    fs::remove_all(site.scratch / (".nodestage/trash/" + tree.name));
  site.pass(std::chrono::seconds(2));
  REQUIRE(site.stages(2));
  fail();
  CHECK(site.state_of(2) == "failed");
}

TEST_CASE("a daemon that is started again compares what nobody uses") {
  SharingSite site;
  site.ask(1, {{k_a, "data"}});
  site.finish(1);
  site.over(1);
  REQUIRE(site.workers.find(WorkerTask::compare) != nullptr);
  site.start_daemon();
  site.compare("99999999999.0");
  CHECK(site.kept() == 0);
}

TEST_CASE("what is removed for its space is not removed at the lowest priority") {
  for (const bool is_needed : {false, true}) {
    SharingSite site;
    REQUIRE(site.areas.make_directory("old", SharingSite::user(), SharingSite::group()));
    REQUIRE(site.areas.move_to_trash("old", SharingSite::user(), SharingSite::group()));
    if (is_needed) site.trash.hurry(SharingSite::user());
    site.trash.sweep();
    REQUIRE(site.workers.find(WorkerTask::remove) != nullptr);
    CHECK(site.workers.find(WorkerTask::remove)->order.is_urgent == is_needed);
  }
}

TEST_CASE("a tree that could not be removed is tried again") {
  SharingSite site;
  REQUIRE(site.areas.make_directory("old", SharingSite::user(), SharingSite::group()));
  REQUIRE(site.areas.move_to_trash("old", SharingSite::user(), SharingSite::group()));
  const auto trash = site.areas.list_trash();
  REQUIRE(trash.size() == 1);
  const std::string tree = site.scratch / (".nodestage/trash/" + trash[0].name);
  std::ofstream(tree + "/planted").close();
  site.trash.sweep();
  REQUIRE(site.workers.end(WorkerTask::remove));  // its owner's, and then root's
  REQUIRE(site.workers.end(WorkerTask::remove));
  site.trash.sweep();
  CHECK(site.workers.find(WorkerTask::remove) == nullptr);
  fs::remove(tree + "/planted");
  site.pass(std::chrono::seconds(70));
  REQUIRE(site.workers.end(WorkerTask::remove));
  CHECK(site.trees("trash") == 0);
}

TEST_CASE("a user has a thousand entries at most: the one that was used least recently goes") {
  SharingSite site;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    CacheEntry entry;
    const std::string number = std::to_string(i);
    entry.name = site.entry(std::string(k_share_key_bytes - number.size(), '0') + number);
    entry.uid = SharingSite::user();
    entry.gid = SharingSite::group();
    entry.tree = "data";
    entry.boot = site.boot;
    entry.changed = {1, 1};
    const std::string place = site.scratch / (".nodestage-cache/" + entry.name);
    fs::create_directory(place);
    std::ofstream(place + "/data").close();
    ::chmod((place + "/data").c_str(), 0400);
    if (::geteuid() == 0) REQUIRE(::chown((place + "/data").c_str(), entry.uid, entry.gid) == 0);
    std::ofstream(place + ".record") << encode_entry(entry);
    const timespec used[2] = {{static_cast<time_t>(5000 - i), 0},
                              {static_cast<time_t>(5000 - i), 0}};
    REQUIRE(::utimensat(AT_FDCWD, place.c_str(), used, 0) == 0);
  }
  site.config.cache.max_age_s = 3650ULL * 86'400 * 20;
  site.start_daemon();
  REQUIRE(site.kept() == 1000);
  site.ask(1, {{k_a, "data"}});
  CHECK(site.order(1).at(0).role == ShareRole::lead);
  site.finish(1);
  CHECK(site.kept() == 1000);
  const auto rows = site.jobs->cache(0);
  CHECK(std::none_of(rows.begin(), rows.end(), [&](const CacheRow& row) {
    return row.name == site.entry(std::string(k_share_key_bytes - 3, '0') + "999");
  }));
}

TEST_CASE("what a job changes at once is later than what was published") {
  SharingSite site;
  site.config.staging.max_jobs = 100;
  for (std::uint32_t job = 1; job <= 30; ++job) {
    const std::string number = std::to_string(job);
    const std::string key = std::string(k_share_key_bytes - number.size(), '0') + number;
    site.ask(job, {{key, "data"}});
    site.finish(job);
    const std::string tree = site.kept_path(key, "data");
    REQUIRE(::chmod(tree.c_str(), 0600) == 0);
    struct stat info {};
    REQUIRE(::stat(tree.c_str(), &info) == 0);
    std::ifstream file(site.scratch / (".nodestage-cache/" + site.entry(key) + ".record"));
    const auto entry = decode_entry(std::string{std::istreambuf_iterator<char>(file), {}});
    REQUIRE(entry);
    const ChangeTime now{info.st_ctim.tv_sec, static_cast<std::uint32_t>(info.st_ctim.tv_nsec)};
    CHECK(now > entry->changed);
  }
}
