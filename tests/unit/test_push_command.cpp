// `nodestage push`, in a job and in `nodestage run`, and what `run` delivers by itself.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "cli/process/worker_child.hpp"
#include "cli/push/push.hpp"
#include "cli/run/run.hpp"
#include "cli/run_dirs/private_directory.hpp"
#include "common/os/file.hpp"
#include "fake_daemon.hpp"
#include "scratch.hpp"
#include "texts.hpp"

namespace fs = std::filesystem;
using namespace nodestage;

namespace {

constexpr int k_wrong = 2;

// What a worker reports at once.
WorkerStatus outputs(WorkerPhase phase, std::vector<ItemRecord> items) {
  return {.phase = phase, .items = std::move(items)};
}

ItemRecord output(ItemState state, const char* note = "") {
  ItemRecord item{.state = static_cast<std::uint32_t>(state)};
  set_field(item.source, "results");
  set_field(item.destination, "/t");
  set_field(item.note, note);
  return item;
}

// `nodestage run` with one output, without its command. The worker is a script.
class FakeRun {
 public:
  explicit FakeRun(unsigned every_s = 0) {
    request_.outputs.push_back({"results", "/t", When::always, false, false, every_s});
    request_.outputs.push_back({"logs", "/l"});
    fs::create_directory(scratch_ / "job");
    job_ = std::move(*open_at(AT_FDCWD, scratch_ / "job", O_RDONLY | O_DIRECTORY));
    StageOutOrder order;
    order.directory = scratch_ / "job";
    order.outcome = JobOutcome::success;
    place_.emplace(std::move(*PushDirectory::make(scratch_.path())));
    REQUIRE(place_->record(order, encode_request(request_), scratch_ / "worker", job_.get()));
    ::setenv("NODESTAGE_PUSH_DIR", place_->path().c_str(), 1);
    ::setenv("SLURM_TMPDIR", order.directory.c_str(), 1);
    be(outputs(WorkerPhase::done, {output(ItemState::done)}));
  }
  ~FakeRun() {
    ::unsetenv("NODESTAGE_PUSH_DIR");
    ::unsetenv("SLURM_TMPDIR");
  }

  void script(const std::string& commands) {
    std::ofstream(scratch_ / "worker") << "#!/bin/sh\n" << commands;
    ::chmod((scratch_ / "worker").c_str(), 0755);
  }
  // Workers report this from now on. Their orders are in `order`.
  void be(const WorkerStatus& status) {
    const auto file = open_at(AT_FDCWD, scratch_ / "status", O_RDWR | O_CREAT | O_TRUNC, 0600);
    StatusHeader header{.magic = k_status_magic,
                        .phase = static_cast<std::uint32_t>(status.phase),
                        .items = static_cast<std::uint32_t>(status.items.size())};
    REQUIRE(write_status_header(file->get(), header));
    for (std::size_t i = 0; i < status.items.size(); ++i)
      REQUIRE(write_status_item(file->get(), i, status.items[i]));
    script("cat <&3 >" + scratch_ / "order" + "\ncat " + scratch_ / "status" + " >&5\n");
  }
  [[nodiscard]] PushOrder order() const {
    const auto order = must(decode_order(*read_file(AT_FDCWD, scratch_ / "order", 1 << 20)));
    REQUIRE(task_of(order) == WorkerTask::push);
    return std::get<PushOrder>(order);
  }

  [[nodiscard]] PushDirectory& place() { return *place_; }
  [[nodiscard]] const StageRequest& request() const { return request_; }
  [[nodiscard]] int job() const { return job_.get(); }

 private:
  Scratch scratch_;
  StageRequest request_;
  Fd job_;
  std::optional<PushDirectory> place_;
};

int push(const std::string& socket, std::vector<std::string> names, bool no_wait = false) {
  return push_outputs({socket, std::move(names), no_wait});
}

// Steps until `is_done`.
template <typename Done>
bool stepped(TimedPushes& pushes, Deadline now, Done is_done) {
  for (int i = 0; i < 5000 && !is_done(); ++i) {
    ::poll(nullptr, 0, 1);
    pushes.step(now);
  }
  return is_done();
}

}  // namespace

TEST_CASE("names that are longer than any request are wrong, and are not sent") {
  CHECK(push("/nowhere", std::vector<std::string>(5, std::string(4000, 'x'))) == k_wrong);
}

TEST_CASE("a directory that others can enter names no program that is run") {
  FakeRun run;
  REQUIRE(::chmod(run.place().path().c_str(), 0755) == 0);
  CHECK(push("/nowhere", {}) == k_wrong);
  REQUIRE(::chmod(run.place().path().c_str(), 0700) == 0);
  if (::geteuid() == 0) {
    REQUIRE(::chown(run.place().path().c_str(), 1000, 1000) == 0);
    CHECK(push("/nowhere", {}) == k_wrong);
    REQUIRE(::chown(run.place().path().c_str(), 0, 0) == 0);
  }
  const std::string link = run.place().path() + ".link";
  fs::create_directory_symlink(run.place().path(), link);
  ::setenv("NODESTAGE_PUSH_DIR", link.c_str(), 1);
  CHECK(push("/nowhere", {}) == k_wrong);
  ::setenv("NODESTAGE_PUSH_DIR", run.place().path().c_str(), 1);
  CHECK(push("/nowhere", {}) == 0);
}

TEST_CASE("push: an output is named as in --stage-out, or by its path") {
  for (const char* name : {"a/b", "a/b/", "./a/b", "/l/j/a/b", "/l/j/a/b//"})
    CHECK(output_source_name(name, "/l/j") == "a/b");
  CHECK(output_source_name("/l/j/a", "/l/j/") == "a");
  CHECK(output_source_name("/l/jj/a", "/l/j") == "/l/jj/a");
  CHECK(output_source_name("/l/j", "/l/j") == "/l/j");
  CHECK(output_source_name("/a", "") == "/a");
  CHECK(output_source_name("*.pt", "/l/j") == "*.pt");
}

TEST_CASE("push: in a job, the daemon is asked, and its answer is the exit code") {
  const Scratch scratch;
  const std::string socket = scratch / "s";
  ::setenv("NODESTAGE_JOBID", "7", 1);
  ::setenv("SLURM_TMPDIR", "/l/j", 1);
  const auto answered = [&](const Message& answer, bool no_wait = false) {
    FakeDaemon daemon(socket, {[&](FakePeer& peer) {
                        const Message heard = peer.hear();
                        const auto* ask = std::get_if<Push>(&heard);
                        CHECK(ask != nullptr);
                        if (ask != nullptr) {
                          CHECK(ask->job == 7);
                          CHECK(ask->waits == (no_wait ? 0 : 1));
                          CHECK(ask->names == std::vector<std::string>{"results"});
                        }
                        if (!no_wait) peer.say(Progress{});
                        peer.say(answer);
                      }});
    return push(socket, {"/l/j/results/"}, no_wait);
  };
  CHECK(answered(Ready{{}, {"results -> /t: 1 file"}}) == 0);
  CHECK(answered(Accepted{}, true) == 0);
  CHECK(answered(Failed{"why", {"results -> /t: not delivered: why"}}) == 1);
  CHECK(answered(Failed{"why", {}}) == 1);
  CHECK(answered(Refused{RefusalReason::unknown_name, "the job has no output 'x'"}) == k_wrong);
  CHECK(answered(Refused{RefusalReason::unknown_job, ""}) == k_wrong);
  CHECK(answered(Refused{RefusalReason::busy, "too many names"}) == 1);
  CHECK(answered(HeldQuery{}) == 1);
  ::unsetenv("NODESTAGE_JOBID");
  ::unsetenv("SLURM_TMPDIR");
}

TEST_CASE("push: a daemon that restarts meanwhile is asked again") {
  const Scratch scratch;
  ::setenv("NODESTAGE_JOBID", "7", 1);
  FakeDaemon daemon(scratch / "s", {[](FakePeer& peer) {
                                      peer.hear();
                                      peer.say(Progress{});
                                    },
                                    [](FakePeer& peer) {
                                      const Message again = peer.hear();
                                      CHECK(std::holds_alternative<Push>(again));
                                      peer.say(Ready{});
                                    }});
  CHECK(push(scratch / "s", {}) == 0);
  ::unsetenv("NODESTAGE_JOBID");
}

TEST_CASE("push: wrong usage") {
  const Scratch scratch;
  for (const char* name : {"NODESTAGE_JOBID", "SLURM_JOB_ID", "NODESTAGE_RUN"}) ::unsetenv(name);
  CHECK(push(scratch / "s", {}) == k_wrong);  // not in a job
  ::setenv("SLURM_JOB_ID", "7", 1);
  CHECK(push(scratch / "s", {}) == k_wrong);  // no daemon here
  CHECK(push(scratch / "s", std::vector<std::string>(65, "a")) == k_wrong);
  CHECK(push(scratch / "s", {""}) == k_wrong);
  ::unsetenv("SLURM_JOB_ID");
  ::setenv("NODESTAGE_RUN", "1", 1);
  CHECK(push(scratch / "s", {}) == k_wrong);  // of a run without outputs
  ::unsetenv("NODESTAGE_RUN");
}

TEST_CASE("push in `run`: its worker delivers what was asked for") {
  FakeRun run;
  CHECK(push("", {}) == 0);
  const PushOrder all = run.order();
  CHECK(all.keeps_list);
  CHECK(all.push_all);
  CHECK(push("", {"results"}) == 0);
  CHECK_FALSE(run.order().push_all);
  CHECK(run.order().push_names == std::vector<std::string>{"results"});
  CHECK(push("", {"result"}) == k_wrong);
  run.be(outputs(WorkerPhase::done, {output(ItemState::skipped, "is not there yet")}));
  CHECK(push("", {}) == 0);
  CHECK(push("", {"results"}) == 1);
  run.be(outputs(WorkerPhase::failed, {output(ItemState::failed, "No space left on device")}));
  CHECK(push("", {}) == 1);
  run.script("exit 3\n");
  CHECK(push("", {}) == 1);
}

TEST_CASE("push in `run`: without waiting, it goes on behind the caller") {
  FakeRun run;
  CHECK(push("", {"result"}, true) == k_wrong);
  CHECK(push("", {}, true) == 0);
  // It has taken its turn, sooner or later, and given it back.
  const auto has_run = [&] {
    struct stat info {};
    return ::stat((run.place().order().directory + "/../order").c_str(), &info) == 0;
  };
  for (int i = 0; i < 5000 && !has_run(); ++i) ::poll(nullptr, 0, 1);
  CHECK(has_run());
  for (int i = 0; i < 5000 && !*run.place().take_turn(); ++i) ::poll(nullptr, 0, 1);
  CHECK(run.order().push_all);
}

TEST_CASE("push in `run`: one at a time, until the worker has exited") {
  FakeRun run;
  auto turn = must(run.place().take_turn());
  REQUIRE(turn);
  const auto other = PushDirectory::open(run.place().path());
  REQUIRE(other);
  CHECK(other->order().directory == run.place().order().directory);
  CHECK_FALSE(*other->take_turn());
  run.script("exec sleep 1000\n");
  auto worker = must(run.place().start(std::move(*turn), run.place().order(), run.job()));
  CHECK_FALSE(*other->take_turn());
  worker.kill();
  CHECK(*other->take_turn());
}

TEST_CASE(
    "push in `run`: once the command has exited, none starts, and one under way is called off") {
  FakeRun run;
  auto turn = run.place().take_turn();
  REQUIRE(*turn);
  run.script("exec sleep 1000\n");
  auto worker = must(run.place().start(std::move(**turn), run.place().order(), run.job()));
  CHECK_FALSE(run.place().is_closed());
  REQUIRE(run.place().close());
  CHECK(run.place().is_closed());
  auto signals = must(Signals::open());
  TaskVoice voice(Speech::silent, 2, false, "n", std::chrono::seconds(10));
  const auto stop =
      watch_worker(worker, signals, voice, [&run] { return run.place().is_closed(); });
  REQUIRE(stop);
  CHECK(stop->signal == 0);
  CHECK(*run.place().take_turn());
  CHECK(push("", {}) == 1);
}

TEST_CASE("push in `run`: its directory is the caller's alone, and goes with the run") {
  std::string path;
  {
    FakeRun run;
    path = run.place().path();
    struct stat info {};
    REQUIRE(::stat(path.c_str(), &info) == 0);
    CHECK((info.st_mode & 07777) == 0700);
    const auto opened = must(PushDirectory::open(path));
    CHECK(fs::exists(path));  // opened only
  }
  CHECK_FALSE(fs::exists(path));
  CHECK(!PushDirectory::open(path));
}

TEST_CASE("timed pushes: due after their interval, and only those that are") {
  FakeRun run(10);
  std::vector<std::string> said;
  const Deadline begin{};
  TimedPushes pushes(
      run.request(), &run.place(), run.job(),
      [&said](const std::string& text) { said.push_back(text); }, begin);
  const auto after = [begin](int seconds) { return begin + std::chrono::seconds(seconds); };
  CHECK(pushes.patience(begin) == std::chrono::seconds(10));
  pushes.step(after(9));
  CHECK(pushes.patience(after(9)) == std::chrono::seconds(1));
  CHECK(*run.place().take_turn());  // nothing was started
  {
    const auto turn = run.place().take_turn();  // `nodestage push` has it
    pushes.step(after(10));
    CHECK(pushes.patience(after(10)) == std::chrono::seconds(1));
  }
  pushes.step(after(11));
  CHECK(pushes.patience(after(11)) > std::chrono::minutes(1));  // a worker is under way
  REQUIRE(stepped(pushes, after(11),
                  [&] { return pushes.patience(after(11)) == std::chrono::seconds(10); }));
  CHECK(run.order().push_items == 1);
  CHECK_FALSE(run.order().push_all);
  CHECK(said.empty());
}

TEST_CASE("timed pushes: a failure is said once, until one has succeeded") {
  FakeRun run(10);
  std::vector<std::string> said;
  Deadline now{};
  TimedPushes pushes(
      run.request(), &run.place(), run.job(),
      [&said](const std::string& text) { said.push_back(text); }, now);
  const auto push_once = [&] {
    now += std::chrono::seconds(10);
    pushes.step(now);
    return stepped(pushes, now, [&] { return pushes.patience(now) == std::chrono::seconds(10); });
  };
  const auto bad = outputs(WorkerPhase::failed, {output(ItemState::failed, "Disk quota exceeded")});
  run.be(bad);
  REQUIRE(push_once());
  REQUIRE(push_once());
  REQUIRE(said.size() == 1);
  CHECK(has(said[0], "results -> /t: not delivered: Disk quota exceeded"));
  run.script("exit 3\n");
  REQUIRE(push_once());
  CHECK(said.size() == 1);
  run.be(outputs(WorkerPhase::done, {output(ItemState::done)}));
  REQUIRE(push_once());
  CHECK(said.size() == 1);
  run.be(bad);
  REQUIRE(push_once());
  CHECK(said.size() == 2);
}

TEST_CASE("timed pushes: one under way is stopped, and a run without outputs needs nothing") {
  FakeRun run(10);
  Deadline now{};
  TimedPushes pushes(
      run.request(), &run.place(), run.job(), [](const std::string&) {}, now);
  run.script("exec sleep 1000\n");
  pushes.step(now + std::chrono::seconds(10));
  CHECK_FALSE(*run.place().take_turn());
  pushes.stop();
  CHECK(*run.place().take_turn());
  TimedPushes none(
      {}, nullptr, -1, [](const std::string&) {}, now);
  none.step(now);
  CHECK(none.patience(now) > std::chrono::minutes(1));
}
