// The daemon's job table after a restart, from a journal that the test has written.
#include <doctest/doctest.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "common/os/child.hpp"
#include "common/wire/daemon_client.hpp"
#include "daemon/root/front/server.hpp"
#include "daemon/root/jobs/jobs.hpp"
#include "scratch.hpp"

using namespace nodestage;

namespace {

bool can_run() {
  if (::geteuid() == 0) return true;
  MESSAGE("skipped: not root, whom the areas must belong to");
  return false;
}

struct Node {
  Scratch scratch;
  Config config;
  Result<Loop> loop = Loop::create();
  Result<Areas> areas = Areas::open(scratch / "");
  Result<Journal> journal = Journal::open(scratch / "state");
  Workers workers{*loop, Cgroups::none()};
  Trash trash{*areas, workers, config};
  Peers peers{*loop, config};
  SlurmQuestion slurm{*loop, config};
  Records records{scratch / "state", config};
  Jobs jobs{{*loop, config, *areas, *journal, workers, trash, peers, slurm, records, -1}};

  Node() {
    spdlog::set_level(spdlog::level::off);
    std::filesystem::create_directories(scratch / "run/jobs");
    config.daemon.socket = scratch / "run/socket";
    config.daemon.worker_path = "/nonexistent/worker";
    config.slurm.scontrol = "/bin/false";
    config.staging.max_jobs = 1;
  }

  JobRecord record(std::uint32_t job, JobState state) const {
    JobRecord record;
    record.begin.job = job;
    record.begin.uid = record.begin.gid = 1000;
    record.begin.user = "alice";
    record.begin.node = "n1";
    record.begin.request = "{}";
    record.directory = "alice." + std::to_string(job) + ".0";
    record.state = state;
    std::ofstream(scratch / ("run/jobs/" + std::to_string(job)));
    return record;
  }
  void keep(const JobRecord& record) const {
    REQUIRE(journal->save_request(record));
    REQUIRE(journal->save(record));
  }
  std::string state_of(std::uint32_t job) {
    const auto rows = jobs.status(job, 0);
    return rows.size() == 1 ? rows[0].row.state : "";
  }
};

// As a worker that outlives the daemon.
struct Sleeper {
  pid_t pid = ::fork();
  Sleeper() {
    if (pid != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) ::pause();
  }
  ~Sleeper() {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  [[nodiscard]] ProcessMark mark() const {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    std::getline(file, text);
    std::istringstream fields(text.substr(text.rfind(')') + 1));
    std::string field;
    for (int number = 3; number <= 22; ++number) fields >> field;
    return {pid, std::strtoull(field.c_str(), nullptr, 10)};
  }
};

}  // namespace

TEST_CASE("after a restart nothing starts before every place that is taken is known") {
  if (!can_run()) return;
  const Sleeper worker;
  Node node;
  for (std::uint32_t job = 1; job <= 20; ++job) {  // whatever order the disk lists them in
    JobRecord record = node.record(job, JobState::queued);
    record.begun_at = job;
    if (job == 20) {
      record.state = JobState::staging;
      record.worker = worker.mark();
    }
    node.keep(record);
  }
  node.jobs.recover();
  CHECK(node.state_of(20) == "staging");
  for (std::uint32_t job = 1; job < 20; ++job) CHECK(node.state_of(job) == "queued");
}

TEST_CASE("a step did as its worst task, also when the daemon was restarted between two of them") {
  if (!can_run()) return;
  Node first;
  first.keep(first.record(1, JobState::ready));
  first.jobs.recover();
  first.jobs.exited({1, 0, 256});
  first.jobs.exited({1, 1, 256});
  const auto loaded = first.journal->load();
  Node second;
  second.record(1, JobState::ready);
  REQUIRE(loaded.records.size() == 1);
  second.keep(loaded.records[0]);
  second.jobs.recover();
  second.jobs.exited({1, 1, 0});
  CHECK(outcome_of(second.journal->load().records.at(0)) == JobOutcome::failure);
}

TEST_CASE(
    "the end of an older run does not end a newer one; that of a run that Slurm does not name "
    "does") {
  if (!can_run()) return;
  for (const auto& [restart, ends] :
       {std::pair<std::uint32_t, bool>{1, false}, {2, true}, {3, true}, {k_no_number, true}}) {
    CAPTURE(restart);
    Node node;
    JobRecord record = node.record(7, JobState::ready);
    record.begin.restart = 2;
    record.directory = "alice.7.0";
    REQUIRE(::mkdir((node.scratch / record.directory).c_str(), 0700) == 0);
    REQUIRE(::chown((node.scratch / record.directory).c_str(), 1000, 1000) == 0);
    node.keep(record);
    node.jobs.recover();
    std::vector<EndOutcome> heard;
    node.jobs.end(End{7, restart, 0, 0},
                  [&](const Message& answer) { heard.push_back(std::get<Ended>(answer).outcome); });
    CHECK((heard == std::vector{EndOutcome::nothing}) == !ends);
    CHECK((node.state_of(7) == "ready") == !ends);
  }
}

TEST_CASE("of a job that is gone a record is left, with what was known before a restart") {
  if (!can_run()) return;
  Node node;
  JobRecord record = node.record(1, JobState::failed);
  record.times.begun = 1'700'000'000'000;
  record.times.staged = 1'700'000'005'000;
  record.failure = "why";
  record.ended = true;
  node.keep(record);
  record = node.record(2, JobState::ready);
  record.ended = true;
  record.begin.request.clear();
  node.keep(record);
  node.jobs.recover();
  CHECK(node.journal->load().records.empty());
  const auto texts = node.jobs.reports(1, 1000);
  REQUIRE(texts.size() == 1);
  const auto report = decode_report(texts[0]);
  REQUIRE(report);
  CHECK(report->state == "failed");
  CHECK(report->cause == "why");
  CHECK(report->times.begun == 1'700'000'000'000);
  CHECK(report->times.staged == 1'700'000'005'000);
  CHECK(report->times.ended >= report->times.staged);
  CHECK(report->times.gone >= report->times.ended);
  CHECK(node.jobs.reports(1, 1001).empty());
  CHECK(node.jobs.reports(1, 0).size() == 1);
  // It had wanted nothing.
  CHECK(node.jobs.reports(2, 0).empty());
}

TEST_CASE("a job that is here is told of to its user and root, and to nobody else") {
  if (!can_run()) return;
  Node node;
  node.keep(node.record(1, JobState::ready));
  node.jobs.recover();
  CHECK(node.jobs.reports(1, 1000).size() == 1);
  CHECK(node.jobs.reports(1, 0).size() == 1);
  CHECK(node.jobs.reports(1, 1001).empty());
  CHECK(node.jobs.reports(2, 0).empty());
}

TEST_CASE("a list that is longer than a socket holds arrives whole") {
  if (!can_run()) return;
  Node node;
  constexpr std::uint32_t k_held = 100;
  for (std::uint32_t job = 1; job <= k_held; ++job) {
    JobRecord record = node.record(job, JobState::held);
    record.ended = record.in_hold = true;
    const std::string tree = node.scratch / (".nodestage/hold/" + to_text(record.key()));
    REQUIRE(::mkdir(tree.c_str(), 0700) == 0);
    REQUIRE(::chown(tree.c_str(), 1000, 1000) == 0);
    record.hold.since = record.hold.warned_at = static_cast<std::uint64_t>(::time(nullptr));
    record.hold.is_measured = record.hold.is_told = true;
    record.hold.reasons.assign(8, std::string(500, 'x'));
    node.keep(record);
  }
  node.jobs.recover();
  Server server(*node.loop, node.config, node.jobs, 1024);
  REQUIRE(server.listen(node.config.daemon.socket));
  const auto in_a_minute = Clock::now() + std::chrono::minutes(1);
  auto client = DaemonConnection::open(node.config.daemon.socket);
  REQUIRE(client);
  REQUIRE(client->send(HeldQuery{}, in_a_minute));
  int go[2];
  REQUIRE(::pipe(go) == 0);
  const pid_t reader = ::fork();
  if (reader == 0) {
    char byte = 0;
    ::close(go[1]);
    if (::read(go[0], &byte, 1) != 1) ::_exit(3);
    std::uint32_t rows = 0;
    for (;;) {
      const auto message = client->receive(in_a_minute);
      if (!message) ::_exit(1);
      if (std::holds_alternative<HeldRow>(*message)) ++rows;
      if (std::holds_alternative<Accepted>(*message)) ::_exit(rows == k_held ? 0 : 2);
    }
  }
  const auto reader_fd = open_pid(reader);
  REQUIRE(reader_fd);
  REQUIRE(node.loop->watch(reader_fd->get(), [&] { node.loop->stop(); }));
  // It begins to read when the daemon has said all.
  int rounds = 0;
  std::function<void()> next = [&] {
    if (++rounds < 20) {
      node.loop->after(std::chrono::milliseconds(0), next);
    } else {
      CHECK(::write(go[1], "x", 1) == 1);
    }
  };
  next();
  REQUIRE(node.loop->run());
  int status = -1;
  REQUIRE(::waitpid(reader, &status, 0) == reader);
  CHECK(status == 0);
  for (const int end : go) ::close(end);
}
