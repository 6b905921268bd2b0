// JobSite: all of the daemon's job handling in a directory of its own, without root, worker
// processes or other nodes: the test sets what workers and nodes report, and how time passes.
#pragma once

#include <doctest/doctest.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/root/jobs/jobs.hpp"
#include "scratch.hpp"
#include "texts.hpp"

namespace nodestage {

inline constexpr std::uint32_t k_job = 7;  // where a test needs one
inline const WorkerEnd k_code_0{WorkerEnd::Kind::ended, "ended with code 0"};
inline const WorkerEnd k_dead{WorkerEnd::Kind::ended, "was killed by signal 9"};

class ScriptedWorkers final : public Workers {
 public:
  struct Started {
    Id id;
    WorkerOrder order;
    std::string request;
    Fd status;
    OnEnd on_end;
    std::string job_cgroup;

    [[nodiscard]] WorkerTask task() const { return task_of(order); }
    template <typename Order>
    [[nodiscard]] const Order& as() const {
      return std::get<Order>(order);
    }
  };
  explicit ScriptedWorkers(Loop& loop) : Workers(loop, Cgroups::none()) {}

  Result<Id> start(const WorkerStart& start, const CgroupLimits&, const Limits&, Subject,
                   OnEnd on_end) override {
    if (is_refusing) return Error{ENOMEM, "no process can be made"};
    alive.push_back({next_++, start.order, start.request, Fd(::dup(start.status_fd)),
                     std::move(on_end), start.job_cgroup});
    return alive.back().id;
  }
  std::optional<Id> adopt(const ProcessMark&, const std::string&, const Limits&, Subject,
                          OnEnd) override {
    return {};
  }
  void kill(Id id) override { killed.push_back(id); }
  [[nodiscard]] ProcessMark mark(Id id) const override { return {static_cast<int>(id), id}; }
  [[nodiscard]] std::vector<pid_t> pids() const override {
    std::vector<pid_t> pids;
    for (const Started& one : alive) pids.push_back(static_cast<pid_t>(one.id));
    return pids;
  }
  [[nodiscard]] bool ends_all() const override { return true; }
  [[nodiscard]] JobCgroups find_job_cgroups(const std::set<JobOfUser>& wanted) const override {
    ++looks;
    JobCgroups found = job_cgroups;
    std::erase_if(found, [&wanted](const auto& item) { return !wanted.contains(item.first); });
    return found;
  }

  // The worker of that job, or of any.
  [[nodiscard]] Started* find(WorkerTask task, std::uint32_t job = k_no_number) {
    const auto found = std::find_if(alive.begin(), alive.end(), [&](const Started& started) {
      return started.task() == task && (job == k_no_number || job == head_of(started.order).job);
    });
    return found == alive.end() ? nullptr : &*found;
  }
  // The order of that kind that a worker of that job, or of any, has; there must be one.
  template <typename Order>
  [[nodiscard]] const Order& order(std::uint32_t job = k_no_number) {
    Started* const started = find(task_of(WorkerOrder(Order{})), job);
    REQUIRE(started != nullptr);
    return started->as<Order>();
  }
  // The worker of a job writes its phase and its items; end() is its exit. Both return whether
  // there was a worker.
  bool say(WorkerTask task, std::uint32_t job, WorkerPhase phase,
           const std::vector<ItemRecord>& items, const char* cause = "") {
    Started* started = find(task, job);
    if (started == nullptr) return false;
    StatusHeader header{.magic = k_status_magic,
                        .phase = static_cast<std::uint32_t>(phase),
                        .items = static_cast<std::uint32_t>(items.size())};
    std::copy(every_s.begin(), every_s.end(), header.every_s);
    set_field(header.cause, cause);
    set_field(header.chosen, chosen);
    for (std::size_t i = 0; i < items.size(); ++i)
      REQUIRE(write_status_item(started->status.get(), i, items[i]));
    REQUIRE(write_status_header(started->status.get(), header));
    return true;
  }
  // The worker of any job, with one item.
  bool say(WorkerTask task, WorkerPhase phase, const char* cause = "") {
    return say(task, k_no_number, phase, {ItemRecord{}}, cause);
  }
  bool end(WorkerTask task, const WorkerEnd& how = {WorkerEnd::Kind::done, "ended with code 0"},
           std::uint32_t job = k_no_number) {
    Started* started = find(task, job);
    if (started == nullptr) return false;
    const OnEnd on_end = std::move(started->on_end);
    alive.erase(alive.begin() + (started - alive.data()));
    on_end(how);
    return true;
  }
  // One that is there says `phase`, and ends.
  void finish(WorkerTask task, WorkerPhase phase, const char* cause = "") {
    REQUIRE(say(task, phase, cause));
    REQUIRE(end(task));
  }
  void finish(WorkerTask task, std::uint32_t job, WorkerPhase phase,
              const std::vector<ItemRecord>& items) {
    REQUIRE(say(task, job, phase, items));
    REQUIRE(end(task));
  }

  bool is_refusing = false;
  std::vector<std::uint32_t> every_s;  // what workers report of `every=` and `newest=`
  std::string chosen;
  std::vector<Started> alive;
  std::vector<Id> killed;
  JobCgroups job_cgroups;  // of the jobs that have a step
  mutable int looks = 0;   // for these

 private:
  Id next_ = 1;
};

class ScriptedPeers final : public Peers {
 public:
  using Peers::Peers;
  [[nodiscard]] std::optional<std::string> off() const override { return {}; }
  [[nodiscard]] std::optional<std::string> broken() const override { return {}; }
  void send(PeerNote note, const OnSent&) override { sent.push_back(std::move(note)); }
  void probe(const std::string& node, OnSent on_sent) override {
    probed.emplace_back(node, std::move(on_sent));
  }

  std::vector<PeerNote> sent;
  std::vector<std::pair<std::string, OnSent>> probed;
};

struct JobSite {
  static std::uint32_t user() { return ::geteuid() == 0 ? 1000 : ::geteuid(); }
  static std::uint32_t group() { return ::geteuid() == 0 ? 1000 : ::getegid(); }

  Scratch scratch;
  Config config;
  Loop loop = std::move(*Loop::create());
  Areas areas = std::move(*Areas::open(scratch.path(), ::geteuid()));
  Journal journal = std::move(*Journal::open(scratch / "state"));
  std::optional<DiskThread> disk;
  bool has_disk = false;  // else the loop waits for the disk
  ScriptedWorkers workers{loop};
  ScriptedPeers peers{loop, config};
  Trash trash{loop, areas, workers, config};
  std::optional<SlurmQuestion> slurm;
  Records records{scratch / "state", config};
  std::string boot = "a boot";
  std::optional<Jobs> jobs;
  std::vector<Message> answers;
  Reply reply = [this](const Message& message) { answers.push_back(message); };

  JobSite() {
    spdlog::set_level(spdlog::level::off);
    std::filesystem::create_directories(scratch / "run/jobs");
    config.daemon.socket = scratch / "run/socket";
    config.slurm.scontrol = "/bin/false";
    config.stageout.report = ReportTo::none;  // test_told_results.cpp has the lines
    start_daemon();
  }
  // As systemd does: the journal and the trees stay, nothing that was in memory does, nor a timer.
  void start_daemon() {
    jobs.reset();
    slurm.reset();
    workers.alive.clear();
    disk.reset();
    loop = std::move(*Loop::create());
    loop.advance(passed);
    if (has_disk) {
      journal.sync_by(disk.emplace(loop));
      REQUIRE(disk->start());
    }
    slurm.emplace(loop, config);
    jobs.emplace(
        Jobs::Deps{loop, config, areas, journal, workers, trash, peers, *slurm, records, boot});
    jobs->recover();
  }
  // Until everything is durable.
  void await_disk() {
    jobs->then([this] { loop.stop(); });
    REQUIRE(loop.run());
  }
  // In steps, so that what a timer starts runs, too.
  void pass(std::chrono::milliseconds time) {
    constexpr int k_steps = 8;
    for (int i = 0; i < k_steps; ++i) {
      loop.advance(time / k_steps);
      passed += time / k_steps;
      loop.after(std::chrono::milliseconds(0), [this] { loop.stop(); });
      REQUIRE(loop.run());
    }
  }

  Begin request(std::uint32_t job, std::uint32_t restart = 0) const {
    std::ofstream(scratch / ("run/jobs/" + std::to_string(job)));
    return {.job = job,
            .restart = restart,
            .uid = user(),
            .gid = group(),
            .user = "alice",
            .node = "n1",
            .node_count = 1,
            .node_index = 0,
            .cpus = 1,
            .request = "{}"};
  }
  // From the second node of two.
  Begin shared_request(std::uint32_t job) const {
    Begin begin = request(job);
    begin.first_node = "n0";
    begin.node_count = 2;
    begin.node_index = 1;
    return begin;
  }
  void accept(const Begin& begin) { as<Accepted>(jobs->begin(begin)); }
  // What the caller that was told of something last was told.
  [[nodiscard]] const Progress& progress() const { return as<Progress>(answers.back()); }
  Ticket wait(std::uint32_t job) {
    Wait wait{.job = job, .interval_ms = 1000};
    return jobs->wait(wait, reply);
  }
  Ticket end(std::uint32_t job) { return jobs->end(End{job, k_no_number, 0, 0}, reply); }
  void hear_from_first(std::uint32_t job, JobNote note) {
    jobs->take_note({{"n1"}, "n0", job, 0, ++sequence, std::move(note)}, "");
  }
  // "" when the job is no longer known.
  std::string state_of(std::uint32_t job, std::uint32_t restart = 0) {
    for (const JobStatus& status : jobs->status(job, 0))
      if (status.row.restart == restart) return status.row.state;
    return "";
  }
  [[nodiscard]] std::size_t trees(const char* area) const {
    const std::filesystem::directory_iterator list(scratch / (std::string(".nodestage/") + area));
    return static_cast<std::size_t>(
        std::distance(begin(list), std::filesystem::directory_iterator()));
  }

  // What removers do, until none is left.
  void empty_trash() {
    do {
      for (const auto& tree : std::filesystem::directory_iterator(scratch / ".nodestage/trash")) {
        if (!tree.is_directory()) continue;
        for (const auto& in_it : std::filesystem::directory_iterator(tree))
          std::filesystem::remove_all(in_it);
      }
    } while (workers.end(WorkerTask::remove));
  }

  std::chrono::milliseconds passed{0};
  std::uint64_t sequence = 0;
};

}  // namespace nodestage
