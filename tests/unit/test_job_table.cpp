#include <doctest/doctest.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "common/wire/node_report.hpp"
#include "daemon/root/table/job_table.hpp"
#include "daemon/root/table/records.hpp"
#include "scratch.hpp"

using namespace nodestage;
namespace fs = std::filesystem;

namespace {

constexpr JobState k_states[] = {JobState::waiting_for_directory,
                                 JobState::queued,
                                 JobState::staging,
                                 JobState::ready,
                                 JobState::failed,
                                 JobState::stopping,
                                 JobState::awaiting_outcome,
                                 JobState::staging_out,
                                 JobState::held,
                                 JobState::gone};

std::vector<JobState> followers(JobState from) {
  std::vector<JobState> found;
  for (const JobState to : k_states)
    if (may_follow(from, to)) found.push_back(to);
  return found;
}

struct TableSite {
  Scratch scratch;
  Loop loop = std::move(*Loop::create());
  Result<Journal> journal = Journal::open(scratch / "state");
  Counters counters;
  JobTable table{loop, *journal, counters};

  TableSite() { spdlog::set_level(spdlog::level::off); }

  static JobRecord record(std::uint32_t job, std::uint32_t restart = 0) {
    return {.begin = {.job = job, .restart = restart, .uid = 1000, .gid = 1000, .request = "{}"},
            .begun_at = 1'700'000'000 + job};
  }
  // Nothing can be written any more, not even by root.
  void lose_disk() const { std::filesystem::remove_all(scratch / "state/jobs"); }
  [[nodiscard]] std::size_t on_disk() const { return journal->load().records.size(); }
};

}  // namespace

TEST_CASE("from each state there is a way to the end, and none back from it") {
  using enum JobState;
  for (const JobState from : k_states) {
    CAPTURE(to_text(from));
    CHECK(may_follow(from, gone));
    CHECK_FALSE(may_follow(from, waiting_for_directory) == (from != waiting_for_directory));
  }
  CHECK(followers(gone) == std::vector{gone});
}

TEST_CASE("what was staged or has failed is not staged again, and an ending job does not run") {
  using enum JobState;
  CHECK(followers(ready) ==
        std::vector{failed, stopping, awaiting_outcome, staging_out, held, gone});
  // A push can be under way in each of them.
  CHECK(may_follow(queued, stopping));
  CHECK(may_follow(staging, stopping));
  CHECK(followers(failed) == std::vector{stopping, awaiting_outcome, staging_out, held, gone});
  CHECK(followers(stopping) == std::vector{stopping, awaiting_outcome, staging_out, held, gone});
  CHECK(followers(staging_out) == std::vector{awaiting_outcome, staging_out, held, gone});
  CHECK(followers(held) == std::vector{staging_out, held, gone});
}

TEST_CASE("a new job is in the journal, or nowhere") {
  TableSite site;
  const auto added = site.table.add(TableSite::record(1));
  REQUIRE(added);
  CHECK(site.table.find({1, 0}) == *added);
  CHECK(site.on_disk() == 1);
  site.lose_disk();
  CHECK_FALSE(site.table.add(TableSite::record(2)));
  CHECK(site.table.find({2, 0}) == nullptr);
}

TEST_CASE("a forgotten job is forgotten by the journal too") {
  TableSite site;
  REQUIRE(site.table.add(TableSite::record(1)));
  site.table.forget({1, 0});
  CHECK(site.table.find({1, 0}) == nullptr);
  CHECK(site.on_disk() == 0);
  CHECK(site.table.all().empty());
}

TEST_CASE("the next daemon has all jobs, the oldest first") {
  TableSite first;
  for (const std::uint32_t job : {3U, 1U, 2U}) REQUIRE(first.table.add(TableSite::record(job)));
  JobTable second(first.loop, *first.journal, first.counters);
  CHECK(second.load() == std::vector<JobKey>{{1, 0}, {2, 0}, {3, 0}});
  REQUIRE(second.find({2, 0}) != nullptr);
  CHECK(second.find({2, 0})->begin.request == "{}");
}

TEST_CASE("a job's steps and its epilog mean its newest run") {
  TableSite site;
  for (const std::uint32_t restart : {0U, 2U, 1U})
    REQUIRE(site.table.add(TableSite::record(7, restart)));
  REQUIRE(site.table.add(TableSite::record(8)));
  REQUIRE(site.table.find_live(7) != nullptr);
  CHECK(site.table.find_live(7)->begin.restart == 2);
  site.table.set_state(*site.table.find({7, 2}), JobState::gone);
  REQUIRE(site.table.find_live(7) != nullptr);
  CHECK(site.table.find_live(7)->begin.restart == 1);
  CHECK(site.table.find_live(6) == nullptr);
}

TEST_CASE("a state that may not follow is refused") {
  TableSite site;
  JobRecord& record = **site.table.add(TableSite::record(1));
  site.table.change(record, JobState::held);
  site.table.change(record, JobState::staging);
  CHECK(record.state == JobState::held);
  CHECK(record.times.staging == 0);
}

TEST_CASE("the first time in a state counts") {
  TableSite site;
  JobRecord& record = **site.table.add(TableSite::record(1));
  site.table.set_state(record, JobState::queued);
  CHECK(record.times.staging == 0);
  site.table.set_state(record, JobState::staging);
  CHECK(record.times.staging != 0);
  record.times.staging = 5;
  site.table.set_state(record, JobState::queued);
  site.table.set_state(record, JobState::staging);
  CHECK(record.times.staging == 5);
}

TEST_CASE("what the journal lacks is known, until it is written or forgotten") {
  TableSite site;
  JobRecord& record = **site.table.add(TableSite::record(1));
  CHECK_FALSE(site.table.unsaved({1, 0}));
  site.lose_disk();
  CHECK_FALSE(site.table.save_now(record));
  CHECK_FALSE(site.table.unsaved({1, 0}));  // the caller knows
  site.table.save(record);
  CHECK(site.table.unsaved({1, 0}));
  site.table.forget({1, 0});
  CHECK_FALSE(site.table.unsaved({1, 0}));
}

namespace {

struct Kept {
  Scratch scratch;
  Config config;

  Kept() {
    spdlog::set_level(spdlog::level::off);
    fs::create_directory(scratch / "state");
  }
  [[nodiscard]] Records open() const { return {scratch / "state", config}; }
  [[nodiscard]] std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(scratch / "state/records"), fs::directory_iterator()));
  }
  void make_older(const std::string& name, std::chrono::hours age) const {
    const fs::path path = scratch / ("state/records/" + name);
    fs::last_write_time(path, fs::last_write_time(path) - age);
  }
};

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("records are found by job, by their user and root alone, also by the next daemon") {
  const Kept kept;
  {
    Records records = kept.open();
    records.keep({1, 0}, 1000, "one");
    records.keep({1, 1}, 1000, "again");
    records.keep({2, 0}, 1001, "two");
  }
  struct stat info {};
  REQUIRE(::stat((kept.scratch / "state/records/1.0.1000.json").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  const Records records = kept.open();
  CHECK(records.find(1, 1000) == Texts{"one", "again"});
  CHECK(records.find(1, 0) == Texts{"one", "again"});
  CHECK(records.find(1, 1001).empty());
  CHECK(records.find(2, 1001) == Texts{"two"});
  CHECK(records.find(3, 0).empty());
}

TEST_CASE("the same run again replaces its record, also when the job id has come to another user") {
  const Kept kept;
  Records records = kept.open();
  records.keep({1, 0}, 1000, "one");
  records.keep({1, 0}, 1000, "new");
  CHECK(records.find(1, 0) == Texts{"new"});
  records.keep({1, 0}, 1001, "other");
  CHECK(records.find(1, 1000).empty());
  CHECK(records.find(1, 0) == Texts{"other"});
  CHECK(kept.files() == 1);
}

TEST_CASE("the oldest go first, beyond the number that is kept") {
  Kept kept;
  kept.config.records.keep = 2;
  kept.open().keep({5, 0}, 1000, "five");
  kept.make_older("5.0.1000.json", std::chrono::hours(2));
  Records records = kept.open();
  records.keep({9, 0}, 1000, "nine");
  records.keep({7, 0}, 1000, "seven");
  CHECK(kept.files() == 2);
  CHECK(records.find(5, 0).empty());
  CHECK(records.find(7, 0) == Texts{"seven"});
  kept.config.records.keep = 0;
  records.trim();
  CHECK(kept.files() == 0);
  records.keep({8, 0}, 1000, "eight");
  CHECK(kept.files() == 0);
}

TEST_CASE("what is too old is not told, and goes") {
  Kept kept;
  kept.config.records.days = 2;
  kept.open().keep({1, 0}, 1000, "one");
  kept.make_older("1.0.1000.json", std::chrono::hours(24));
  CHECK(kept.open().find(1, 0) == Texts{"one"});
  kept.make_older("1.0.1000.json", std::chrono::hours(25));
  CHECK(kept.open().find(1, 0).empty());
  CHECK(kept.files() == 0);
}

TEST_CASE("files that are no records are left alone, and no directory is no harm") {
  const Kept kept;
  fs::create_directory(kept.scratch / "state/records");
  for (const char* name : {"notes", "1.0.json", "1.0.1000.json.new", "x1.0.1000.json"})
    std::ofstream(kept.scratch / ("state/records/" + std::string(name))) << "x";
  Records records = kept.open();
  CHECK(records.find(1, 0).empty());
  records.trim();
  CHECK(kept.files() == 4);

  Records none(kept.scratch / "missing/state", kept.config);
  none.keep({1, 0}, 1000, "one");
  none.trim();
  CHECK(none.find(1, 0).empty());
}

TEST_CASE("a record that is larger than any of ours is not read") {
  const Kept kept;
  fs::create_directory(kept.scratch / "state/records");
  std::ofstream(kept.scratch / "state/records/1.0.1000.json")
      << std::string(k_max_report_bytes + 1, 'x');
  CHECK(kept.open().find(1, 0).empty());
}
