#include <doctest/doctest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "cli/base/private_directory.hpp"
#include "cli/base/push_directory.hpp"
#include "cli/run/dead_runs.hpp"
#include "common/os/child.hpp"
#include "common/os/child_process.hpp"
#include "common/os/file.hpp"
#include "common/request/request.hpp"
#include "scratch.hpp"

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
  PrivateDirectory directory;
  PushDirectory record;

  LivingRun(const std::string& parent, const StageRequest& request)
      : directory(std::move(*PrivateDirectory::make(parent))),
        record(std::move(*PushDirectory::make(parent, order(), encode_request(request), "/w"))) {}
  [[nodiscard]] WorkerOrder order() const {
    WorkerOrder order;
    order.directory = directory.path();
    return order;
  }
};

// A run that is killed; returns its job directory.
std::string dead_run(const Scratch& scratch, const StageRequest& request) {
  auto pipe = make_pipe();
  REQUIRE(pipe);
  auto child = ChildProcess::start(Orphan::killed, [&] {
    const LivingRun run(scratch.path(), request);
    std::ofstream(run.directory.path() + "/results") << "x";
    if (!write_all(pipe->write.get(), run.directory.path())) return 1;
    pipe->write.reset();
    ::raise(SIGKILL);
    return 0;
  });
  REQUIRE(child);
  pipe->write.reset();
  const auto path = read_all(pipe->read.get(), 4096);
  REQUIRE(path);
  child->wait();
  return *path;
}

std::string cleared(const Scratch& scratch) {
  std::string said;
  clear_dead_runs(scratch.path(), [&said](const std::string& text) { said += text + "\n"; });
  return said;
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

TEST_CASE("results of a killed run stay, and are named once") {
  Scratch scratch;
  const std::string path = dead_run(scratch, request_for("results"));
  const std::string said = cleared(scratch);
  CHECK(said.find("killed before its results were delivered: they are kept in " + path + "\n") !=
        std::string::npos);
  CHECK(said.find("cp -a " + path + "/results ELSEWHERE && rm -rf " + path) != std::string::npos);
  CHECK(cleared(scratch).empty());
  CHECK(fs::exists(path + "/results"));
  CHECK(std::distance(fs::directory_iterator(scratch.path()), {}) == 1);
}

TEST_CASE("what belongs to a run that lives is left alone") {
  Scratch scratch;
  const LivingRun run(scratch.path(), request_for("results"));
  std::ofstream(run.directory.path() + "/results") << "x";
  CHECK(cleared(scratch).empty());
  CHECK(fs::exists(run.directory.path() + "/results"));
  CHECK(PushDirectory::open(run.record.path()));
}

TEST_CASE("nothing but what a run has recorded is removed") {
  Scratch scratch;
  fs::create_directories(scratch / "nodestage-run-mine/sub");
  fs::create_directories(scratch / "precious");
  fs::permissions(scratch / "precious", fs::perms::owner_all);
  {  // a record that names another directory
    WorkerOrder order;
    order.directory = scratch / "precious";
    auto child = ChildProcess::start(Orphan::killed, [&] {
      const auto record = PushDirectory::make(scratch.path(), order, "{}", "/w");
      ::raise(SIGKILL);
      return record ? 0 : 1;
    });
    REQUIRE(child);
    child->wait();
  }
  CHECK(cleared(scratch).empty());
  CHECK(fs::exists(scratch / "nodestage-run-mine/sub"));
  CHECK(fs::exists(scratch / "precious"));
}
