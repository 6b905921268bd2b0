// Mounted images of jobs, as the daemon sees them: from the prolog's hook to the end of the job.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>

#include "job_site.hpp"

using namespace nodestage;
namespace fs = std::filesystem;

namespace {

constexpr const char* k_two_images =
    R"({"datasets":[{"mount":true,"source":"/a"},{"mount":true,"source":"/b"}],"version":1})";

struct ImageSite : JobSite {
  void begin(std::uint32_t job) {
    Begin begin = request(job);
    begin.request = k_two_images;
    accept(begin);
  }
  // As the hook, with so many descriptors.
  bool report(std::uint32_t job, std::size_t count, const std::string& fault = "") {
    std::vector<Fd> fuse;
    for (std::size_t i = 0; i < count; ++i)
      fuse.emplace_back(::open("/dev/null", O_RDWR | O_CLOEXEC));
    return std::holds_alternative<Accepted>(jobs->mounted({job, 0, fault}, std::move(fuse)));
  }
  void begin_mounted(std::uint32_t job) {
    begin(job);
    REQUIRE(report(job, 2));
  }
  [[nodiscard]] std::string path(const std::string& name) const {
    return scratch / (".nodestage-images/" + name);
  }
  [[nodiscard]] ImageRules told() { return workers.order<StageOrder>().images; }
};

}  // namespace

TEST_CASE(
    "a job with images is staged once they are mounted, beside the process that serves them") {
  ImageSite site;
  site.begin(7);
  CHECK(fs::is_directory(site.path("7.0/0")));
  CHECK(fs::is_directory(site.path("7.0/1")));
  CHECK_FALSE(fs::exists(site.path("7.0/2")));
  CHECK(site.workers.find(WorkerTask::stage) == nullptr);
  REQUIRE(site.report(7, 2));
  const auto& serve = site.workers.order<ServeOrder>();
  CHECK(serve.images == 2);
  CHECK(serve.uid == ImageSite::user());
  CHECK(site.told().refusal.empty());
  CHECK(site.told().mounts == std::vector<std::string>{site.path("7.0/0"), site.path("7.0/1")});

  site.workers.finish(WorkerTask::stage, WorkerPhase::done);
  REQUIRE(site.state_of(7) == "ready");
  const auto id = site.workers.find(WorkerTask::serve)->id;
  site.end(7);
  CHECK(site.workers.killed == std::vector<Workers::Id>{id});
}

TEST_CASE("the directories of a job's images go with the job, and what is mounted there later") {
  ImageSite site;
  site.begin_mounted(7);
  site.workers.finish(WorkerTask::stage, WorkerPhase::done);
  // As a mount, it keeps its directory from being removed.
  fs::create_directory(site.path("7.0/1/in-the-way"));
  site.end(7);
  site.workers.finish(WorkerTask::stage_out, WorkerPhase::done);
  CHECK(site.state_of(7).empty());
  CHECK_FALSE(fs::exists(site.path("7.0/0")));
  REQUIRE(fs::exists(site.path("7.0/1")));
  fs::remove(site.path("7.0/1/in-the-way"));
  static_cast<void>(site.jobs->place({8, 0}));
  site.pass(std::chrono::seconds(5));
  CHECK_FALSE(fs::exists(site.path("")));
}

TEST_CASE("where the site makes the directory after the hook has run, what it has reported waits") {
  ImageSite site;
  site.config.tmpdir.create = CreateDirectory::never;
  site.start_daemon();
  site.begin_mounted(7);
  CHECK(site.workers.alive.empty());
  const std::string directory = site.scratch / "alice.7.0";
  REQUIRE(fs::create_directory(directory));
  REQUIRE(::chown(directory.c_str(), ImageSite::user(), ImageSite::group()) == 0);
  site.pass(std::chrono::seconds(2));
  CHECK(site.workers.find(WorkerTask::serve) != nullptr);
  CHECK(site.told().mounts.size() == 2);
}

TEST_CASE("why images are not mounted is what the worker is told") {
  struct Row {
    std::size_t descriptors;
    const char* fault;
    const char* refusal;
  };
  const Row rows[] = {
      {0, "/dev/fuse: No such file or directory", "/dev/fuse: No such file or directory"},
      {1, "", "the prolog's hook has mounted 1 of 2"},
      {0, "", "the prolog's hook has mounted 0 of 2"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.refusal);
    ImageSite site;
    site.begin(7);
    REQUIRE(site.report(7, row.descriptors, row.fault));
    CHECK(site.workers.find(WorkerTask::serve) == nullptr);
    CHECK(site.told().mounts.empty());
    CHECK(site.told().refusal == row.refusal);
  }
}

TEST_CASE("a prolog that does not report its mounts is waited for, within its time") {
  ImageSite site;
  site.config.peer.begin_wait_s = 60;
  site.begin(7);
  site.pass(std::chrono::seconds(50));
  CHECK(site.workers.find(WorkerTask::stage) == nullptr);
  CHECK(site.jobs->status(7, 0)[0].row.others.find("its prolog") != std::string::npos);
  site.pass(std::chrono::seconds(11));
  CHECK(site.told().refusal.find("has not reported") != std::string::npos);
  CHECK_FALSE(site.report(7, 2));
}

TEST_CASE("only the first report of a job that lives counts") {
  ImageSite site;
  CHECK_FALSE(site.report(7, 2));
  site.begin_mounted(7);
  CHECK_FALSE(site.report(7, 2));
  site.accept(site.request(8));
  CHECK_FALSE(site.report(8, 1));
  site.begin(9);
  site.end(9);
  CHECK_FALSE(site.report(9, 2));
}

TEST_CASE("a process that serves images leaves the cause of its end, if that is a fault") {
  ImageSite site;
  site.begin_mounted(7);
  site.workers.finish(WorkerTask::stage, WorkerPhase::done);
  std::string fault;
  SUBCASE("it has failed") {
    fault = "it is damaged";
    REQUIRE(site.workers.say(WorkerTask::serve, WorkerPhase::failed, fault.c_str()));
    REQUIRE(site.workers.end(WorkerTask::serve, {WorkerEnd::Kind::ended, "ended with code 1"}));
  }
  SUBCASE("the kernel has killed a part of it for want of memory") {
    fault = "the process that serves them ran out of memory";
    REQUIRE(site.workers.say(WorkerTask::serve, WorkerPhase::failed, "image 1 was killed"));
    REQUIRE(site.workers.end(WorkerTask::serve, {WorkerEnd::Kind::no_memory, "ran out of memory"}));
  }
  SUBCASE("it has served until they were detached") {
    site.workers.finish(WorkerTask::serve, WorkerPhase::done);
  }
  const auto saved = site.journal.load();
  REQUIRE(saved.records.size() == 1);
  CHECK(saved.records[0].image_fault == fault);
}

TEST_CASE("a daemon that starts waits for a report that the last one did not get") {
  ImageSite site;
  site.begin(7);
  site.start_daemon();
  CHECK(site.workers.find(WorkerTask::stage) == nullptr);
  REQUIRE(site.report(7, 2));
  CHECK(site.told().mounts.size() == 2);
}

TEST_CASE("a daemon that starts without the process that serves says so to the worker") {
  ImageSite site;
  site.config.staging.max_jobs = 1;
  site.begin_mounted(6);
  site.begin_mounted(7);
  site.start_daemon();
  CHECK(site.told().mounts.empty());
  CHECK(site.told().refusal.find("the process that serves them") != std::string::npos);
}

TEST_CASE("a later hook is asked to detach what a job without an epilog has left mounted") {
  ImageSite site;
  fs::create_directories(site.path("5.0/0"));
  fs::create_directories(site.path("not a job"));
  site.start_daemon();
  static_cast<void>(site.jobs->place({8, 0}));
  site.pass(std::chrono::seconds(5));
  CHECK_FALSE(fs::exists(site.path("5.0")));
  CHECK(fs::exists(site.path("not a job")));
}
