// What of shared items is kept, how long, and what removes it.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "sharing_site.hpp"

using namespace nodestage;
namespace fs = std::filesystem;

TEST_CASE("an entry stays while a job uses it, and is compared when the last one has gone") {
  SharingSite site;
  site.stage(1);
  site.stage(2);
  CHECK(site.jobs->drop(0, {}).size() == 1);
  CHECK(site.kept() == 1);
  site.over(1);
  CHECK(site.workers.find(WorkerTask::compare) == nullptr);
  site.over(2);
  SUBCASE("unchanged: it is there for the next job") {
    site.compare("1.0");
    CHECK(site.kept() == 1);
    CHECK(site.role_asked(3) == ShareRole::link);
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
    site.finish_with(job, items);
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
    site.empty_trash();
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
    site.stage_and_end(job, key);
    site.compare("1.0");
  }
  REQUIRE(site.trees("trash") > 0);
  site.config.cache.keep_free_percent = 100;
  site.pass(std::chrono::seconds(8));
  CHECK(site.kept() == 2);  // what is removed may be enough
  site.pass(std::chrono::seconds(80));
  CHECK(site.kept() == 0);
}

TEST_CASE("a half written entry is never whole") {
  SharingSite site;
  site.stage_and_end(1);
  const std::string record = site.kept_directory(k_a) + ".record";
  const std::string tree = site.kept_path(k_a, "data");
  SUBCASE("no record") { fs::remove(record); }
  SUBCASE("an empty record") { std::ofstream(record).close(); }
  SUBCASE("a record of another entry") { std::ofstream(record) << R"({"version":1,"name":"1.b"})"; }
  SUBCASE("no tree") { fs::remove_all(tree); }
  SUBCASE("what is left of an eviction") {
    fs::remove(record);
    fs::remove_all(tree);
  }
  site.start_daemon();
  CHECK(site.kept() == 0);
  CHECK(fs::is_empty(site.scratch / ".nodestage-cache"));
}

TEST_CASE("an entry that its user has made writable stays while a job uses it") {
  SharingSite site;
  site.stage(1);
  ::chmod(site.kept_path(k_a, "data").c_str(), 0600);
  site.start_daemon();
  CHECK(site.text_in(1, "data") == "of job 1");
  site.over(1);
  site.compare("99999999999.0");
  CHECK(site.kept() == 0);
}

TEST_CASE("at the user's quota what is kept and not used goes, and the job stages again, once") {
  SharingSite site;
  site.stage_and_end(1);
  REQUIRE(site.kept() == 1);
  site.accept(site.request(2));
  const auto fail = [&site] {
    ItemRecord item{.state = static_cast<std::uint32_t>(ItemState::failed),
                    .flags = k_item_over_quota};
    site.say(2, WorkerPhase::failed, {item});
    site.end_stage(2);
  };
  fail();
  CHECK(site.state_of(2) == "queued");
  CHECK(site.kept() == 0);
  site.pass(std::chrono::seconds(2));
  CHECK_FALSE(site.stages(2));  // not before it is removed
  site.empty_trash();
  site.pass(std::chrono::seconds(2));
  REQUIRE(site.stages(2));
  fail();
  CHECK(site.state_of(2) == "failed");
}

TEST_CASE("a user has a thousand entries at most: the one that was used least recently goes") {
  SharingSite site;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    CacheEntry entry;
    const std::string number = std::to_string(i);
    entry.name = site.entry(std::string(k_share_key_bytes - number.size(), '0') + number);
    entry.directory = entry.name;  // as in earlier releases
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
  CHECK(site.role_asked(1) == ShareRole::lead);
  site.finish(1);
  CHECK(site.kept() == 1000);
  const auto rows = site.jobs->cache(0);
  CHECK(std::none_of(rows.begin(), rows.end(), [&](const CacheRow& row) {
    return row.name == site.entry(std::string(k_share_key_bytes - 3, '0') + "999");
  }));
  // They are dropped some at a time: others want the loop, too.
  CHECK(site.jobs->drop(0, {}).size() == 1000);
  CHECK(site.kept() > 900);
  site.ask(2, {{std::string(k_share_key_bytes - 3, '0') + "998", "data"}});
  CHECK(site.order(2).at(0).role == ShareRole::lead);
  for (int i = 0; i < 100 && site.kept() > 1; ++i) site.pass(std::chrono::seconds(1));
  CHECK(site.kept() == 1);  // in use
}

TEST_CASE("what a job changes at once is later than what was published") {
  SharingSite site(100);
  for (std::uint32_t job = 1; job <= 30; ++job) {
    const std::string number = std::to_string(job);
    const std::string key = std::string(k_share_key_bytes - number.size(), '0') + number;
    site.stage(job, key);
    const std::string tree = site.kept_path(key, "data");
    REQUIRE(::chmod(tree.c_str(), 0600) == 0);
    struct stat info {};
    REQUIRE(::stat(tree.c_str(), &info) == 0);
    const auto entry = decode_entry(file_text(site.kept_directory(key) + ".record"));
    REQUIRE(entry);
    const ChangeTime now{info.st_ctim.tv_sec, static_cast<std::uint32_t>(info.st_ctim.tv_nsec)};
    CHECK(now > entry->changed);
  }
}

TEST_CASE("attack: who knows a source and its facts cannot look for who keeps it") {
  SharingSite site;
  site.ask(1, {{k_a, "data"}});
  CHECK(fs::path(site.kept_directory(k_a)).filename().string().size() == site.entry(k_a).size());
  const auto has_the_key = [&site] {
    const fs::directory_iterator cache(site.scratch / ".nodestage-cache");
    return std::any_of(begin(cache), end(cache), [](const fs::directory_entry& entry) {
      return entry.path().filename().string().find(k_a) != std::string::npos;
    });
  };
  CHECK_FALSE(has_the_key());
  site.finish(1);
  site.over(1);
  CHECK_FALSE(has_the_key());
  CHECK(site.jobs->cache(0).at(0).name == site.entry(k_a));
}

TEST_CASE("what an earlier release has kept under the name of its key is found, and stays") {
  SharingSite site;
  site.stage(1);
  const std::string before = site.kept_directory(k_a);
  const std::string earlier = site.scratch / (".nodestage-cache/" + site.entry(k_a));
  auto record = nlohmann::json::parse(std::ifstream(before + ".record"));
  for (const char* field :
       {"entry", "for_readers", "made_for", "array_job", "array_task", "het_job"})
    record.erase(field);
  CHECK(record.size() == 17);  // a new field is one more that an earlier release lacks
  record["name"] = site.entry(k_a);
  fs::rename(before, earlier);
  fs::remove(before + ".record");
  std::ofstream(earlier + ".record") << record.dump();
  site.start_daemon();
  CHECK(site.kept() == 1);
  CHECK(site.role_asked(2) == ShareRole::link);
  CHECK(site.order(2).at(0).path == earlier + "/data");
  site.over(1);
  site.over(2);
  CHECK(fs::exists(earlier + "/data"));
}
