#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "cli/run/run.hpp"
#include "cli/run_dirs/private_directory.hpp"
#include "cli/slurm/slurm_job.hpp"
#include "common/os/child.hpp"
#include "common/os/file.hpp"
#include "common/request/request.hpp"
#include "fusermount.hpp"
#include "scratch.hpp"
#include "texts.hpp"

namespace fs = std::filesystem;
using namespace nodestage;

namespace {

StageRequest request_for(const std::string& output) {
  StageRequest request;
  if (!output.empty()) request.outputs.push_back({output, "/t"});
  return request;
}

// What a run has while it lives.
struct LivingRun {
  std::string node;
  PushDirectory record;
  PrivateDirectory directory;

  LivingRun(const std::string& parent, const StageRequest& request,
            std::string on_node = node_name())
      : node(std::move(on_node)),
        record(std::move(*PushDirectory::make(parent))),
        directory(std::move(*record.make_job_directory())) {
    REQUIRE(record.record(order(), encode_request(request), "/w", directory.fd()));
  }
  [[nodiscard]] StageOutOrder order() const {
    StageOutOrder order;
    order.directory = directory.path();
    order.node = node;
    return order;
  }
};

// A run that is killed; returns its job directory.
std::string dead_run(const Scratch& scratch, const StageRequest& request,
                     const std::string& node = node_name()) {
  auto pipe = must(make_pipe());
  auto child = must(ChildProcess::start(Orphan::killed, [&] {
    const LivingRun run(scratch.path(), request, node);
    std::ofstream(run.directory.path() + "/results") << "x";
    if (!write_all(pipe.write.get(), run.directory.path())) return 1;
    pipe.write.reset();
    ::raise(SIGKILL);
    return 0;
  }));
  pipe.write.reset();
  const auto path = must(read_all(pipe.read.get(), 4096));
  child.wait();
  return path;
}

// Does it in a process that is killed then; what it has made stays.
template <typename Do>
void dies(Do what) {
  auto child = must(ChildProcess::start(Orphan::killed, [&] {
    const auto made = what();
    if (!made) return 1;
    ::raise(SIGKILL);
    return 0;
  }));
  REQUIRE(WIFSIGNALED(must(child.wait())));
}

void make_old(const Scratch& scratch) {
  for (const auto& entry : fs::directory_iterator(scratch.path()))
    fs::last_write_time(entry.path(), fs::file_time_type::clock::now() - std::chrono::hours(1));
}

// `patience`: the number of times that it may ask whether to stop.
std::string cleared(const Scratch& scratch, int patience = 1'000'000) {
  std::string said;
  clear_dead_runs(
      scratch.path(), [&said](const std::string& text) { said += text + "\n"; },
      [&patience] { return --patience < 0; });
  return said;
}

// As after a reboot, or on another host of the same name.
void change_boots(const Scratch& scratch) {
  for (const auto& entry : fs::directory_iterator(scratch.path())) {
    if (fs::exists(entry.path() / "alive")) std::ofstream(entry.path() / "alive") << "another";
  }
}

std::ptrdiff_t entries(const Scratch& scratch) {
  return std::distance(fs::directory_iterator(scratch.path()), {});
}

bool is_empty(const Scratch& scratch) { return fs::is_empty(scratch.path()); }

}  // namespace

TEST_CASE("what a killed run has left goes, if it has no results") {
  Scratch scratch;
  const std::string path = dead_run(scratch, request_for(""));
  CHECK(fs::exists(path + "/results"));
  CHECK(cleared(scratch) ==
        "removed what an earlier `nodestage run` left when it was killed: " + path + "\n");
  CHECK(is_empty(scratch));
}

TEST_CASE("what a killed run has mounted is detached, and then its record goes") {
  Scratch scratch;
  Scratch programs;
  const std::string point =
      path_beside(PrivateKind::record, dead_run(scratch, request_for(""))) + "/image.0";
  fs::create_directory(point);
  const Fusermount fusermount(programs, "");
  cleared(scratch);
  CHECK(fusermount.detached() == std::vector<std::string>{point});
  CHECK(is_empty(scratch));
}

TEST_CASE("results of a killed run stay, and are named once") {
  Scratch scratch;
  const std::string path = dead_run(scratch, request_for("results"));
  const std::string said = cleared(scratch);
  CHECK(has(said, "killed before its results were delivered: they are kept in " + path + "\n"));
  CHECK(has(said, "cp -a " + path + "/results ELSEWHERE && rm -rf " + path));
  CHECK(cleared(scratch).empty());
  CHECK(fs::exists(path + "/results"));
  CHECK(entries(scratch) == 1);
}

TEST_CASE("what belongs to a run that lives is left alone") {
  Scratch scratch;
  const LivingRun run(scratch.path(), request_for("results"));
  std::ofstream(run.directory.path() + "/results") << "x";
  CHECK(cleared(scratch).empty());
  CHECK(fs::exists(run.directory.path() + "/results"));
  CHECK(PushDirectory::open(run.record.path()));
}

TEST_CASE("what may belong to a run that lives on another node is left alone") {
  Scratch scratch;
  const std::string path = dead_run(scratch, request_for(""), "another-node");
  CHECK(cleared(scratch).empty());
  CHECK(fs::exists(path + "/results"));
  CHECK(entries(scratch) == 2);
}

TEST_CASE("what is from another boot of this node, or from another node of this name, is named") {
  Scratch scratch;
  const std::string where =
      " of a `nodestage run` from before this node's last boot, or of one that still runs on "
      "another node of this name\n";
  SUBCASE("without results") {
    const std::string path = dead_run(scratch, request_for(""));
    change_boots(scratch);
    CHECK(cleared(scratch) ==
          path + " stays: it is" + where + "Remove it with: rm -rf " + path + "\n");
    CHECK(fs::exists(path + "/results"));
  }
  SUBCASE("with results") {
    const std::string path = dead_run(scratch, request_for("results"));
    change_boots(scratch);
    CHECK(cleared(scratch) == "the results in " + path + " stay: they are" + where +
                                  "Fetch them with: cp -a " + path +
                                  "/results ELSEWHERE && rm -rf " + path + "\n");
    CHECK(fs::exists(path + "/results"));
  }
  CHECK(entries(scratch) == 2);
}

TEST_CASE("whoever stops the removal leaves the rest, with its record, to the next run") {
  Scratch scratch;
  const std::string path = dead_run(scratch, request_for(""));
  for (int i = 0; i < 100; ++i) std::ofstream(path + "/file" + std::to_string(i)) << "x";
  CHECK(cleared(scratch, 50).empty());
  CHECK(std::distance(fs::directory_iterator(path), {}) > 50);
  CHECK(entries(scratch) == 2);
  CHECK(cleared(scratch) ==
        "removed what an earlier `nodestage run` left when it was killed: " + path + "\n");
  CHECK(is_empty(scratch));
}

TEST_CASE("a killed run whose directory was removed is forgotten") {
  Scratch scratch;
  fs::remove_all(dead_run(scratch, request_for("results")));
  CHECK(cleared(scratch).empty());
  CHECK(is_empty(scratch));
}

TEST_CASE("results of a killed run are named whatever mode its command gave the directory") {
  Scratch scratch;
  const std::string path = dead_run(scratch, request_for("results"));
  fs::permissions(path, fs::perms(0755));
  CHECK(has(cleared(scratch), "they are kept in " + path + "\n"));
  CHECK(fs::exists(path + "/results"));
  CHECK(fs::status(path).permissions() == fs::perms(0755));
}

TEST_CASE("a killed run whose directory cannot be opened is named and not forgotten") {
  Scratch scratch;
  const std::string path = dead_run(scratch, request_for("results"));
  fs::remove_all(path);
  std::ofstream(path) << "not a directory";
  const std::string said =
      "what an earlier `nodestage run` left when it was killed cannot be opened, and stays: " +
      path + ": Not a directory\n";
  CHECK(cleared(scratch) == said);
  CHECK(cleared(scratch) == said);
  CHECK(entries(scratch) == 2);
}

TEST_CASE("what was put in the place of a dead run's directory is not removed") {
  Scratch scratch;
  const std::string path = dead_run(scratch, request_for(""));
  fs::rename(path, scratch / "away");
  fs::create_directories(path + "/chapter");
  CHECK_FALSE(has(cleared(scratch), "removed"));
  CHECK(fs::exists(path + "/chapter"));
}

TEST_CASE("nothing but what a run has recorded is removed") {
  Scratch scratch;
  fs::create_directories(scratch / "nodestage-run-mine/sub");
  fs::create_directories(scratch / "precious");
  fs::permissions(scratch / "precious", fs::perms::owner_all);
  dies([&] {  // its job directory is another one, and none lies beside it
    StageOutOrder order;
    order.directory = scratch / "precious";
    order.node = node_name();
    const auto fd = open_at(AT_FDCWD, scratch / "precious", O_RDONLY | O_DIRECTORY);
    auto record = PushDirectory::make(scratch.path());
    const Status recorded = record->record(order, "{}", "/w", fd->get());
    return recorded ? std::move(record) : Result<PushDirectory>(recorded.error());
  });
  CHECK(cleared(scratch).empty());
  CHECK(fs::exists(scratch / "nodestage-run-mine/sub"));
  CHECK(fs::exists(scratch / "precious"));
}

TEST_CASE("of a run that was killed while it made its directories, nothing stays") {
  Scratch scratch;
  SUBCASE("the first one is empty") {
    dies([&] { return PrivateDirectory::make(PrivateKind::record, scratch.path()); });
    CHECK(cleared(scratch).empty());
    CHECK(entries(scratch) == 1);  // it could be that of a run on another host
    make_old(scratch);
  }
  SUBCASE("the job directory does not exist") {
    dies([&] { return PushDirectory::make(scratch.path()); });
  }
  SUBCASE("the job directory is not recorded") {
    std::optional<PushDirectory> record;
    dies([&] {
      record.emplace(std::move(*PushDirectory::make(scratch.path())));
      return record->make_job_directory();
    });
    CHECK(entries(scratch) == 2);
  }
  CHECK(cleared(scratch).empty());
  CHECK(is_empty(scratch));
}

TEST_CASE("an old record of a run that lives, and is not complete, is left alone") {
  Scratch scratch;
  const auto bare = PrivateDirectory::make(PrivateKind::record, scratch.path());
  const auto record = must(PushDirectory::make(scratch.path()));
  const auto directory = record.make_job_directory();
  make_old(scratch);
  CHECK(cleared(scratch).empty());
  CHECK(entries(scratch) == 3);
}

TEST_CASE("results that a run has kept and named are no concern of the next one") {
  Scratch scratch;
  std::string path;
  {
    LivingRun run(scratch.path(), request_for("results"));
    path = run.directory.path();
    std::ofstream(path + "/results") << "x";
    run.directory.keep();
  }
  make_old(scratch);
  CHECK(cleared(scratch).empty());
  CHECK(fs::exists(path + "/results"));
}

TEST_CASE("what a killed run left in memory is removed, and what a living one has stays") {
  const Scratch scratch;
  const std::string parent = scratch.path();
  dies([&] {
    auto killed = PrivateDirectory::make(PrivateKind::memory, parent);
    fs::create_directory(killed->path() + "/data");
    return killed;
  });
  REQUIRE(entries(scratch) == 1);
  auto living = must(PrivateDirectory::make(PrivateKind::memory, parent));
  fs::create_directory(scratch / "nodestage-other");
  fs::create_directory_symlink(scratch / "nodestage-other", scratch / "nodestage-memory-link");
  CHECK(cleared(scratch).empty());
  CHECK(entries(scratch) == 3);
  CHECK(fs::exists(living.path()));
  CHECK(fs::exists(scratch / "nodestage-other"));
  CHECK(fs::is_symlink(scratch / "nodestage-memory-link"));
  REQUIRE(living.remove());
  CHECK_FALSE(fs::exists(living.path()));
}
