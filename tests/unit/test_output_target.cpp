#include <doctest/doctest.h>
#include <sys/stat.h>

#include <thread>

#include "daemon/worker/out/output_target.hpp"
#include "stage_out_job.hpp"

using namespace nodestage;
using Form = OutputTarget::Form;
using Kind = OutputSource::Kind;

namespace {

NamedOrder plain_order() {
  NamedOrder order;
  order.job = 42;
  order.restart = 1;
  order.user = "alice";
  order.node = "n1";
  order.node_index = 3;
  order.array_known = true;
  order.job_name = "train";
  return order;
}

struct Placed {
  NamedOrder order = plain_order();
  OutputSource source{Kind::directory, {"run/results"}};
  bool pack = false;

  Result<OutputTarget> operator()(const std::string& target) const {
    OutputItem item{.target = target, .pack = pack};
    return place_output(item, order, source);
  }
  std::string path(const std::string& target) const {
    const auto placed = (*this)(target);
    return placed ? placed->path() : placed.error().text();
  }
};

}  // namespace

TEST_CASE("patterns of a target take their values from the job") {
  Placed placed;
  CHECK(placed.path("/p/%u/%x_%j.%r/%N%n") == "/p/alice/train_42.1/n13");
  CHECK(placed.path("/p/%A_%a") == "/p/42_4294967294");
  placed.order.array_job = 40;
  placed.order.array_task = 7;
  CHECK(placed.path("/p/%A_%3a") == "/p/40_007");
}

TEST_CASE("a pattern whose value is unknown is a fault, never a literal") {
  Placed placed;
  placed.order.array_known = false;
  placed.order.job_name.clear();
  for (const char* target : {"/p/%A", "/p/%a", "/p/%x"}) {
    const auto result = placed(target);
    REQUIRE_FALSE(result);
    CHECK(result.error().code == ENODATA);
  }
}

TEST_CASE("a trailing slash or a directory decides where an output is delivered") {
  Placed placed;
  CHECK(placed("/p/out")->form == Form::contents);
  CHECK(placed("/p/out/")->form == Form::inside);
  CHECK(placed.path("/p/out/") == "/p/out");
  placed.source = {Kind::file, {"a.h5"}};
  CHECK(placed("/p/b.h5")->form == Form::named);
  CHECK(placed("/p/b.h5")->directory == "/p");
  CHECK(placed("/b.h5")->path() == "/b.h5");
  CHECK(placed("/p/")->form == Form::inside);
  CHECK(placed("/")->path() == "/");
  placed.source = {Kind::matches, {"a", "b"}};
  CHECK(placed("/p/out")->form == Form::inside);
}

TEST_CASE("each of several nodes has a place of its own") {
  Placed placed;
  placed.order.node_count = 2;
  CHECK(placed.path("/p/out") == "/p/out/n1");
  CHECK(placed("/p/out")->form == Form::contents);
  CHECK(placed("/p/out/")->form == Form::inside);
  CHECK(placed.path("/p/out/") == "/p/out/n1");
  CHECK(placed.path("/p/out-%N") == "/p/out-n1");
  CHECK(placed.path("/p/out-%n") == "/p/out-3");
  CHECK(placed.path("/p/x.tar.zst") == "/p/x.n1.tar.zst");
  placed.source = {Kind::file, {"a.h5"}};
  CHECK(placed("/p/b.h5")->form == Form::inside);
  CHECK(placed.path("/p/b.h5") == "/p/b.h5/n1");
}

TEST_CASE("packing: asked for, implied, named") {
  Placed placed;
  CHECK(placed("/p/x.tgz")->form == Form::archive);
  CHECK(placed("/p/x.tgz")->suffix == ".tgz");
  CHECK(placed.path("/p/X.ZIP") == "/p/X.ZIP");
  CHECK(placed("/p/X.ZIP")->suffix == ".zip");
  placed.pack = true;
  CHECK(placed.path("/p/x") == "/p/x.tar.zst");
  CHECK(placed.path("/p/x.zip") == "/p/x.zip");
  CHECK(placed.path("/p/") == "/p/results.tar.zst");
  placed.source = {Kind::matches, {"a", "b"}};
  CHECK(placed.path("/p/") == "/p/job-42.tar.zst");
  placed.order.node_count = 2;
  CHECK(placed.path("/p/x") == "/p/x.n1.tar.zst");
  CHECK(placed.path("/p/") == "/p/n1/job-42.tar.zst");
}

TEST_CASE("one file that is an archive already is copied as it is") {
  Placed placed{.source = {Kind::file, {"model.zip"}}};
  CHECK(placed("/p/model.zip")->form == Form::named);
  placed.source = {Kind::file, {"model.bin"}};
  CHECK(placed("/p/model.zip")->form == Form::archive);
}

TEST_CASE("directories are made, through links, by many at a time") {
  const AsUser user;
  const Scratch scratch;
  fs::create_directory(scratch / "real");
  fs::create_directory_symlink("real", scratch / "link");
  const mode_t before = umask(027);
  std::vector<std::thread> threads;
  std::atomic<int> made = 0;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 50; ++j) {
        if (make_directories(scratch / "link/a" + std::to_string(j) + "//b/c/")) ++made;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  umask(before);
  CHECK(made == 8 * 50);
  CHECK((lstat_of(scratch / "real/a0/b/c").st_mode & 0777) == 0750);
}

TEST_CASE("a directory that cannot be made is named") {
  const AsUser user;
  const Scratch scratch;
  write_file(scratch / "file", "");
  fs::create_symlink("nowhere", scratch / "dangling");
  CHECK(make_directories(scratch / "file/x").error().text() == scratch / "file: Not a directory");
  CHECK(make_directories(scratch / "dangling/x").error().text() ==
        scratch / "dangling: is a link that leads nowhere");
  fs::permissions(scratch.path(), fs::perms(0500));
  CHECK(make_directories(scratch / "new/x").error().text() ==
        "cannot make the directory " + scratch / "new: Permission denied");
}
