#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "daemon/root/basis/textfile.hpp"
#include "daemon/root/front/metrics_file.hpp"
#include "scratch.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

std::set<std::string> families() {
  const MetricsText text = metrics_text({});
  std::set<std::string> names;
  const std::string all = text.own + text.disk;
  const std::regex type("# TYPE (\\w+)");
  for (std::sregex_iterator i(all.begin(), all.end(), type); i != std::sregex_iterator(); ++i)
    names.insert((*i)[1]);
  return names;
}

std::set<std::string> names_in(const std::string& file) {
  const std::string text = source_text("docs/" + file);
  std::set<std::string> names;
  const std::regex name("\\bnodestage_[a-z_]+");
  for (std::sregex_iterator i(text.begin(), text.end(), name); i != std::sregex_iterator(); ++i)
    names.insert(std::regex_replace((*i)[0].str(), std::regex("phase_seconds_(sum|count)$"),
                                    "phase_seconds"));
  return names;
}

}  // namespace

TEST_CASE("metrics: every sample has its help, its type and its labels") {
  Metrics metrics;
  metrics.jobs[static_cast<std::size_t>(JobState::staging)] = 2;
  metrics.counters.add_time(JobState::queued, std::chrono::milliseconds(1034));
  metrics.counters.add_time(JobState::queued, std::chrono::milliseconds(2000));
  metrics.counters.add_time(JobState::ready, std::chrono::hours(1));
  metrics.counters.add_failure(Activity::stage_out, FailureCause::time_limit);
  metrics.held_bytes = {5000, 70};
  metrics.held_inodes = {2, 1};
  metrics.held_at_risk = 1;
  metrics.stuck_trees = 3;
  metrics.free_bytes = 7;
  const MetricsText text = metrics_text(metrics);
  check_has(text.own,
            {"# HELP nodestage_jobs Jobs that the daemon knows, by state.\n"
             "# TYPE nodestage_jobs gauge\n"
             "nodestage_jobs{state=\"waiting_for_directory\"} 0\n"
             "nodestage_jobs{state=\"queued\"} 0\n"
             "nodestage_jobs{state=\"staging\"} 2\n",
             "nodestage_phase_seconds_sum{phase=\"queued\"} 3.034\n"
             "nodestage_phase_seconds_count{phase=\"queued\"} 2\n",
             "nodestage_failures_total{activity=\"stage_out\",cause=\"time_limit\"} 1\n",
             "nodestage_held_bytes{waits_for=\"user\"} 5000\n"
             "nodestage_held_bytes{waits_for=\"administrator\"} 70\n",
             "nodestage_held_inodes{waits_for=\"user\"} 2\n", "nodestage_stuck_trees 3\n"});
  CHECK_FALSE(has(text.own, "tmpdir"));
  CHECK(has(text.disk, "nodestage_tmpdir_free_bytes 7\n"));
  CHECK(has(text.own, "nodestage_held_results_at_risk 1\n"));
}

TEST_CASE("metrics: work is counted once, and never taken back") {
  Counters counters;
  Work counted;
  counters.add_work(Activity::stage, {10, 20, 1}, counted);
  counters.add_work(Activity::stage, {30, 20, 2}, counted);
  counters.add_work(Activity::stage, {0, 0, 0}, counted);
  counters.add_work(Activity::stage, {31, 21, 2}, counted);
  CHECK(counters.work[0].bytes_read == 31);
  CHECK(counters.work[0].bytes_written == 21);
  CHECK(counters.work[0].files == 2);
  CHECK(counters.work[1].bytes_read == 0);
}

TEST_CASE("metrics: the work of several items is their sum") {
  WorkerStatus status;
  ItemRecord item{.bytes_read = 10, .files = 3};
  status.items.assign(4, item);
  CHECK(work_of(status).bytes_read == 40);
  CHECK(work_of(status).files == 12);
}

TEST_CASE("metrics: a failure has the cause that the worker's end tells") {
  WorkerStatus said{.phase = WorkerPhase::failed};
  CHECK(cause_of({}, said) == FailureCause::data);
  CHECK(cause_of({}, {}) == FailureCause::process);
  CHECK(cause_of({WorkerEnd::Kind::no_memory, ""}, {}) == FailureCause::memory);
  CHECK(cause_of({WorkerEnd::Kind::over_limit, ""}, {}) == FailureCause::time_limit);
  CHECK(cause_of({WorkerEnd::Kind::not_started, ""}, {}) == FailureCause::start);
  CHECK(cause_of({WorkerEnd::Kind::stuck, ""}, {}) == FailureCause::process);
}

TEST_CASE(
    "metrics: admin.md tells of each; the dashboard and the alerts name none that is not there") {
  const std::set<std::string> known = families();
  const std::set<std::string> told = names_in("admin.md");
  for (const std::string& name : known) CHECK_MESSAGE(told.count(name) == 1, name);
  for (const char* page : {"grafana-dashboard.json", "nodestage-alerts.yml"}) {
    const std::set<std::string> shown = names_in(page);
    CHECK(shown.size() >= 4);
    for (const std::string& name : shown) CHECK_MESSAGE(known.count(name) == 1, name);
  }
}

TEST_CASE("metrics: the file is replaced whole, and no link of somebody else's is followed") {
  const Scratch scratch;
  const std::string path = scratch / "a.prom";
  const std::string victim = scratch / "victim";
  std::ofstream(victim) << "untouched";
  REQUIRE(::symlink(victim.c_str(), (scratch / ".a.prom.new").c_str()) == 0);
  REQUIRE(replace_textfile(path, "one\n"));
  CHECK(file_text(path) == "one\n");
  REQUIRE(::symlink(victim.c_str(), (scratch / "b.prom").c_str()) == 0);
  REQUIRE(replace_textfile(scratch / "b.prom", "two\n"));
  CHECK(file_text(scratch / "b.prom") == "two\n");
  CHECK(file_text(victim) == "untouched");
  struct stat info {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0644);
  CHECK_FALSE(replace_textfile(scratch / "nowhere/a.prom", "x"));
  CHECK(std::filesystem::exists(scratch / ".a.prom.new") == false);
}

TEST_CASE("metrics: written at once when the setting is there, gone with it") {
  const Scratch scratch;
  auto loop = must(Loop::create());
  Config config;
  int asked = 0;
  MetricsFile file(loop, config, [&asked] {
    ++asked;
    return Metrics{};
  });
  file.settings_changed();
  CHECK(asked == 0);
  config.metrics.textfile = scratch / "a.prom";
  file.settings_changed();
  CHECK(has(file_text(scratch / "a.prom"), "nodestage_jobs"));
  config.metrics.textfile = scratch / "b.prom";
  file.settings_changed();
  CHECK_FALSE(std::filesystem::exists(scratch / "a.prom"));
  CHECK(std::filesystem::exists(scratch / "b.prom"));
  config.metrics.textfile.clear();
  file.settings_changed();
  CHECK_FALSE(std::filesystem::exists(scratch / "b.prom"));
  CHECK(asked == 2);
}
