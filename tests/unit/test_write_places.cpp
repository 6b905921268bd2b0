#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "any_delivery.hpp"
#include "common/request/request.hpp"
#include "daemon/worker/deliver/delivered_list.hpp"
#include "daemon/worker/process/write_places.hpp"
#include "daemon/worker/tree/pending_file.hpp"
#include "scratch.hpp"

using namespace nodestage;
namespace fs = std::filesystem;

namespace {

constexpr auto k_patience = std::chrono::seconds(60);

struct Job {
  Scratch scratch;
  AnyDelivery order;
  StageRequest request;
  std::string job = scratch / "job";
  std::string out = scratch / "out";

  Job() {
    fs::create_directories(job + "/results");
    fs::create_directory(out);
    std::ofstream(job + "/file") << "x";
    order.node = "n1";
  }

  // The paths below scratch, one after another.
  [[nodiscard]] std::string places() const { return places(order.as_asked()); }
  [[nodiscard]] std::string places(const WorkerOrder& asked) const {
    const Fd job_fd(::open(job.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    const auto found = write_places(asked, request, job_fd.get(), k_patience);
    REQUIRE(found);
    std::string paths;
    for (const Fd& place : *found) {
      const auto path = fs::read_symlink("/proc/self/fd/" + std::to_string(place.get()));
      paths += "/" + path.lexically_relative(fs::canonical(scratch.path())).string();
    }
    return paths;
  }

  [[nodiscard]] std::string of_output(const std::string& source, const std::string& target) {
    request.outputs = {{}};
    request.outputs.front().source = source;
    request.outputs.front().target = target;
    return places();
  }
};

}  // namespace

TEST_CASE("staging, removal and what drops staged data write below the job directory") {
  Job job;
  CHECK(job.places(StageOrder()) == "/job");
  CHECK(job.places(RemoveOrder()) == "/job");
  CHECK(job.places(MeasureOrder()) == "/job");
}

TEST_CASE("stage-out writes to its target, or where that is to be made") {
  Job job;
  CHECK(job.of_output("results", job.out) == "/out");
  CHECK(job.of_output("results", job.out + "/a/b/") == "/out");
  CHECK(job.of_output("results", job.out + "/a.tar.zst") == "/out");
  CHECK(job.of_output("file", job.out + "/copy") == "/out/out");  // the name may be a directory
  CHECK(job.of_output("nothing", job.out).empty());
  job.order.node_count = 2;
  fs::create_directory(job.out + "/n1");
  CHECK(job.of_output("results", job.out) == "/out/n1");
}

TEST_CASE("links on the way to a target are followed") {
  Job job;
  fs::create_directory(job.scratch / "far");
  fs::create_symlink(job.scratch / "far", job.out + "/link");
  CHECK(job.of_output("results", job.out + "/link/new") == "/far");
  CHECK(job.of_output("file", job.out + "/link") == "/out/far");
}

TEST_CASE("what was delivered, or is excluded, opens no place") {
  Job job;
  static_cast<void>(job.of_output("results", job.out));
  job.order.delivered = 1;
  CHECK(job.places().empty());
  job.order.delivered = 0;
  job.request.outputs.front().when = When::failure;
  job.order.outcome = JobOutcome::success;
  CHECK(job.places().empty());
}

TEST_CASE("recovery and notices have their own places") {
  Job job;
  job.order.task = WorkerTask::recover;
  job.order.recover_to = job.out + "/new";
  CHECK(job.places() == "/out");
  NoticeOrder notice;
  notice.stdout_path = job.out + "/slurm-7.out";
  notice.work_dir = job.job;
  CHECK(job.places(notice) == "/out/job");
  AppendOrder lines;
  static_cast<NoticeOrder&>(lines) = notice;
  CHECK(job.places(lines).empty());
}

TEST_CASE(
    "a push may write to the target of what is not there yet: it can be when its turn comes") {
  Job job;
  job.order.task = WorkerTask::push;
  job.order.push_all = true;
  fs::create_directory(job.out + "/there");
  CHECK(job.of_output("later", job.out + "/there/") == "/out/there/out/there");
  CHECK(job.of_output("later", job.out + "/there") == "/out/there/out/out/there");
  CHECK(job.of_output("later", job.out + "/a.tar").empty());
}

TEST_CASE("a push writes to the targets of what it delivers, and where a killed one left a name") {
  Job job;
  fs::create_directories(job.scratch / "left");
  job.order.task = WorkerTask::push;
  job.order.push_names = {"results/"};
  CHECK(job.of_output("results", job.out) == "/out");
  CHECK(job.of_output("file", job.out + "/").empty());
  CHECK(job.of_output("results", job.out + "/a.tar").empty());
  job.order.keeps_list = true;
  const Fd low(::open((job.scratch / "list").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  const Fd kept(::fcntl(low.get(), F_DUPFD_CLOEXEC, 100));
  REQUIRE(::dup2(kept.get(), k_worker_delivered_fd) == k_worker_delivered_fd);
  const std::string prefix = pending_names(job.order).prefix;
  DeliveredList list(k_worker_delivered_fd);
  list.begin(prefix);
  list.note_temporary(job.scratch / ("left/" + prefix + "01.tmp"));
  CHECK(job.of_output("results", job.out) == "/out/left");
  list.end();
  CHECK(job.of_output("results", job.out) == "/out");
  ::close(k_worker_delivered_fd);
}

TEST_CASE("staging writes below the job directory, and below the one in memory if there is one") {
  Job job;
  StageOrder stage;
  CHECK(job.places(stage) == "/job");
  fs::create_directory(job.scratch / "memory");
  const Fd memory(::open((job.scratch / "memory").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const Fd saved(::dup(k_worker_memory_fd));
  REQUIRE(::dup2(memory.get(), k_worker_memory_fd) == k_worker_memory_fd);
  CHECK(job.places(stage) == "/job");
  stage.memory.directory = job.scratch / "memory";
  CHECK(job.places(stage) == "/job/memory");
  CHECK(job.places(RemoveOrder()) == "/job");
  if (saved)
    ::dup2(saved.get(), k_worker_memory_fd);
  else
    ::close(k_worker_memory_fd);
}
