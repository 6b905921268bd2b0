// Directories of jobs in memory, from the staging to the end of the job.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "job_site.hpp"

using namespace nodestage;
namespace fs = std::filesystem;

namespace {

const WorkerEnd k_step_gone{WorkerEnd::Kind::step_gone, "the job's step had ended"};

// Until scontrol has exited, which no clock of the loop's decides.
void await_worker(JobSite& site) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (site.workers.find(WorkerTask::stage) == nullptr &&
         std::chrono::steady_clock::now() < end) {
    site.pass(std::chrono::milliseconds(0));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Whose items may be in memory.
constexpr const char* k_in_memory =
    R"({"datasets":[{"in":"memory","source":"/d.tar"}],"version":1})";

// No job has a cgroup here, and Slurm does not answer.
struct MemorySite : JobSite {
  MemorySite() {
    areas.open_memory(memory.path());
    config.memory.step_wait_s = 0;
    config.memory.max_share_percent = 60;
  }
  void begin_only(std::uint32_t job) {
    Begin begin = request(job);
    begin.request = k_in_memory;
    jobs->begin(begin);
  }
  void start_step(std::uint32_t job, const std::string& cgroup) {
    workers.job_cgroups[{job, user()}] = cgroup;
  }
  void begin(std::uint32_t job) {
    begin_only(job);
    await_worker(*this);
    REQUIRE(workers.find(WorkerTask::stage) != nullptr);
  }
  // The cgroup that the worker of that job, which stages, is to join.
  [[nodiscard]] std::string joined(std::uint32_t job) {
    REQUIRE(workers.find(WorkerTask::stage, job) != nullptr);
    return workers.find(WorkerTask::stage, job)->job_cgroup;
  }
  [[nodiscard]] std::string path(const std::string& name) const {
    return memory / (".nodestage-memory/" + name);
  }
  [[nodiscard]] bool is_trash_empty() const { return fs::is_empty(path("trash")); }

  Scratch memory{"/dev/shm"};
};

}  // namespace

TEST_CASE("a job's directory in memory is its user's, and goes when the job ends") {
  MemorySite site;
  site.begin(7);
  const auto& order = site.workers.order<StageOrder>();
  CHECK(order.memory.directory == site.path("7.0"));
  CHECK(order.memory.refusal.empty());
  CHECK(order.memory.share_percent == 60);
  struct stat info {};
  REQUIRE(::lstat(site.path("7.0").c_str(), &info) == 0);
  CHECK(info.st_mode == (S_IFDIR | 0700));
  CHECK(info.st_uid == MemorySite::user());
  SUBCASE("while it stages") {
    site.end(7);
    CHECK(fs::exists(site.path("7.0")));
    site.workers.end(WorkerTask::stage);
  }
  SUBCASE("when it was ready") {
    site.workers.finish(WorkerTask::stage, WorkerPhase::done);
    CHECK(site.state_of(7) == "ready");
    site.end(7);
  }
  SUBCASE("when its staging had failed") {
    site.workers.finish(WorkerTask::stage, WorkerPhase::failed, "no");
    CHECK(fs::exists(site.path("7.0")));
    site.end(7);
  }
  CHECK_FALSE(fs::exists(site.path("7.0")));
  CHECK_FALSE(site.is_trash_empty());
}

TEST_CASE("a daemon removes what no job has in memory, and keeps what one has") {
  MemorySite site;
  site.begin(7);
  site.workers.finish(WorkerTask::stage, WorkerPhase::done);
  fs::create_directory(site.path("8.0"));
  fs::create_directory(site.path("other"));
  site.start_daemon();
  CHECK(fs::exists(site.path("7.0")));
  CHECK(fs::exists(site.path("other")));
  CHECK_FALSE(fs::exists(site.path("8.0")));
  CHECK_FALSE(site.is_trash_empty());
}

TEST_CASE("without a directory for it, the worker learns why") {
  JobSite site;
  Begin begin = site.request(7);
  begin.request = R"({"in":"memory"})";
  site.jobs->begin(begin);
  await_worker(site);
  const auto& order = site.workers.order<StageOrder>();
  CHECK(order.memory.directory.empty());
  CHECK(order.memory.refusal == "its administrators have set no directory for it");
}

TEST_CASE("a job that does not ask for it has none, and does not wait") {
  MemorySite site;
  site.jobs->begin(site.request(7));
  CHECK(site.workers.order<StageOrder>().memory.directory.empty());
  CHECK_FALSE(fs::exists(site.path("7.0")));
}

TEST_CASE("one look at the node's processes is for all jobs that wait for a step, and ever rarer") {
  MemorySite site;
  site.config.memory.step_wait_s = 3600;
  const auto begun = site.loop.now();
  for (const std::uint32_t job : {7U, 8U, 9U}) site.begin_only(job);
  for (int i = 0; i < 600; ++i) site.pass(std::chrono::milliseconds(100));
  CHECK(site.workers.looks > 25);
  // The loop's time goes on by itself, too: the machine may be busy.
  CHECK(site.workers.looks <= 6 + (site.loop.now() - begun) / std::chrono::seconds(2));
  CHECK(site.state_of(8) == "queued");
  // Another one that starts to wait is looked for soon.
  site.begin_only(10);
  site.start_step(10, "/cg/10");
  site.pass(std::chrono::milliseconds(200));
  CHECK(site.joined(10) == "/cg/10");
  site.start_step(8, "/cg/8");
  for (int i = 0; i < 20; ++i) site.pass(std::chrono::milliseconds(100));
  REQUIRE(site.workers.find(WorkerTask::stage, 8) != nullptr);
  CHECK(site.workers.find(WorkerTask::stage, 7) == nullptr);
  // Nobody waits, and nobody looks.
  for (const std::uint32_t job : {7U, 9U}) site.end(job);
  site.pass(std::chrono::milliseconds(2000));
  const int looks = site.workers.looks;
  site.pass(std::chrono::milliseconds(60'000));
  CHECK(site.workers.looks == looks);
}

TEST_CASE("a step that ends before its job's worker has joined it is not the job's failure") {
  MemorySite site;
  site.config.memory.step_wait_s = 3600;
  site.start_step(7, "/cg/first");
  site.begin(7);
  site.workers.job_cgroups.clear();
  REQUIRE(site.workers.end(WorkerTask::stage, k_step_gone));
  site.pass(std::chrono::milliseconds(1000));
  CHECK(site.state_of(7) == "queued");
  CHECK(site.workers.find(WorkerTask::stage) == nullptr);
  SUBCASE("the next one is joined") {
    site.start_step(7, "/cg/second");
    site.pass(std::chrono::milliseconds(4000));
    REQUIRE(site.workers.find(WorkerTask::stage) != nullptr);
    CHECK(site.workers.find(WorkerTask::stage)->job_cgroup == "/cg/second");
    site.workers.finish(WorkerTask::stage, WorkerPhase::done);
    CHECK(site.state_of(7) == "ready");
  }
  SUBCASE("not for ever") {
    site.start_step(7, "/cg/other");
    for (int i = 0; i < 3; ++i) {
      site.pass(std::chrono::milliseconds(4000));
      REQUIRE(site.workers.end(WorkerTask::stage, k_step_gone));
    }
    CHECK(site.state_of(7) == "failed");
  }
}

TEST_CASE("a step that ends while its job is in the queue is not the one whose memory is used") {
  MemorySite site;
  site.config.memory.step_wait_s = 3600;
  site.config.staging.max_jobs = 1;
  site.jobs->begin(site.request(6));
  REQUIRE(site.workers.find(WorkerTask::stage, 6) != nullptr);
  const auto queue_after_step = [&](const std::string& cgroup) {
    site.start_step(7, cgroup);
    site.pass(std::chrono::milliseconds(4000));
    site.workers.job_cgroups.clear();
  };
  site.begin_only(7);
  queue_after_step("/cg/first");
  site.workers.say(WorkerTask::stage, WorkerPhase::done);
  site.workers.end(WorkerTask::stage, k_code_0, 6);
  site.pass(std::chrono::milliseconds(1000));
  CHECK(site.workers.find(WorkerTask::stage, 7) == nullptr);
  CHECK(site.state_of(7) == "queued");
  // The place that it has left is there for others.
  site.jobs->begin(site.request(8));
  REQUIRE(site.workers.find(WorkerTask::stage, 8) != nullptr);
  SUBCASE("the next one is joined") {
    site.start_step(7, "/cg/second");
    site.pass(std::chrono::milliseconds(4000));
    site.workers.end(WorkerTask::stage, k_code_0, 8);
    CHECK(site.joined(7) == "/cg/second");
  }
  SUBCASE("not for ever: then, what Slurm says counts") {
    for (std::uint32_t job = 8; job < 11; ++job) {
      queue_after_step("/cg/other");
      site.workers.end(WorkerTask::stage, k_code_0, job);
      site.jobs->begin(site.request(job + 1));
    }
    site.workers.end(WorkerTask::stage, k_code_0, 11);
    await_worker(site);
    REQUIRE(site.workers.find(WorkerTask::stage, 7) != nullptr);
    CHECK(site.workers.find(WorkerTask::stage, 7)->job_cgroup.empty());
  }
}

TEST_CASE("a start that is repeated for another step has a relay of its own") {
  MemorySite site;
  site.config.memory.step_wait_s = 3600;
  Begin begin = site.shared_request(7);
  begin.request = k_in_memory;
  site.jobs->begin(begin);
  site.start_step(7, "/cg/first");
  await_worker(site);
  REQUIRE(site.workers.find(WorkerTask::relay) != nullptr);
  const auto relay = site.workers.find(WorkerTask::relay)->id;
  REQUIRE(site.workers.end(WorkerTask::stage, k_step_gone));
  CHECK(site.workers.killed == std::vector{relay});
}
