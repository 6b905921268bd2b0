#include <doctest/doctest.h>

#include "daemon/worker/share/identify.hpp"
#include "share_run.hpp"
#include "texts.hpp"

using namespace nodestage;

namespace {

// A tree as staging leaves it, and a file.
struct Kept : StageRun {
  Kept() {
    REQUIRE(in_data("mkdir -p t/d/e && echo one >t/d/f && ln t/d/f t/d/e/g && ln -s f t/d/l && "
                    "echo x >file && chmod 400 file t/d/f && chmod 500 t/d/e t/d t") == 0);
  }
  TreeState state(const std::string& name = "t") {
    const auto fd = must(open_at(AT_FDCWD, data() + "/" + name, O_RDONLY));
    const auto found = state_of_tree(fd.get());
    REQUIRE_MESSAGE(found, found.error().text());
    return *found;
  }
};

}  // namespace

TEST_CASE("compare: what was done to a kept tree shows, and comparing does not") {
  Kept kept;
  const TreeState before = kept.state();
  CHECK(before.files == 5);
  CHECK(before.ctime == kept.state().ctime);
  CHECK(kept.in_data("cat t/d/f t/d/e/g >/dev/null && ls -lR t >/dev/null") == 0);
  CHECK(before.ctime == kept.state().ctime);
  // The kernel's clock for times is coarse.
  kept.prepare("sleep 0.02");
  std::string change;
  SUBCASE("chmod") { change = "chmod u+w t/d/f"; }
  SUBCASE("chmod, and back") { change = "chmod u+w t/d/f && chmod 400 t/d/f"; }
  SUBCASE("chmod of a directory") { change = "chmod u+w t/d/e"; }
  SUBCASE("chmod of the top") { change = "chmod u+w t"; }
  SUBCASE("write, with the old time") {
    change = "chmod u+w t/d/f && echo two >t/d/f && touch -d 2020-01-01 t/d/f && chmod 400 t/d/f";
  }
  SUBCASE("unlink") { change = "chmod u+w t/d && rm t/d/l && chmod 500 t/d"; }
  SUBCASE("a new file") { change = "chmod u+w t/d/e && touch t/d/e/new && chmod 500 t/d/e"; }
  SUBCASE("rename") { change = "chmod u+w t/d && mv t/d/l t/d/k && chmod 500 t/d"; }
  SUBCASE("a hard link outside") { change = "ln t/d/f outside"; }
  SUBCASE("the time of a link") { change = "touch -h -d 2020-01-01 t/d/l"; }
  kept.prepare(change);
  CHECK(kept.state().ctime > before.ctime);
}

TEST_CASE("a kept file that is changed has a later change time") {
  Kept kept;
  const TreeState before = kept.state("file");
  CHECK(before.files == 0);
  CHECK(kept.state("file").ctime == before.ctime);
  kept.prepare("sleep 0.02 && chmod 600 file");
  CHECK(kept.state("file").ctime > before.ctime);
}

TEST_CASE("compare: bytes on disk, where hard links count once") {
  Kept kept;
  kept.prepare("mkdir b && head -c 1000000 /dev/urandom >b/f");
  const std::uint64_t bytes = kept.state("b").bytes;
  CHECK(bytes >= 1'000'000);
  CHECK(bytes < 1'100'000);
  kept.prepare("ln b/f b/g");
  CHECK(kept.state("b").bytes == bytes);
}

TEST_CASE("compare: a directory that cannot be read is a fault, and stays as it is") {
  Kept kept;
  kept.prepare("chmod u+w t/d && chmod 100 t/d/e && chmod 500 t/d");
  // As root, nothing would be refused.
  const int code = as_user([&kept] {
    const auto fd = open_at(AT_FDCWD, kept.data() + "/t", O_RDONLY);
    const auto found = fd ? state_of_tree(fd->get()) : Result<TreeState>(fd.error());
    return found ? 1 : found.error().what.starts_with("d/e: ") ? 0 : 2;
  });
  CHECK(code == 0);
  CHECK(kept.in_data("test \"$(stat -c %a t/d/e)\" = 100") == 0);
}

TEST_CASE("compare: the times as text") {
  CHECK(ctime_text(0) == "0.000000000");
  CHECK(ctime_text(1'700'000'000'000'000'001) == "1700000000.000000001");
}

TEST_CASE("compare: the task reports the tree that it was given") {
  ShareRun<StageRun> run;
  REQUIRE(run.in_job("mkdir d && echo x >d/f"));
  run.task = WorkerTask::compare;
  REQUIRE(run.run() == 0);
  CHECK(run.status.phase == WorkerPhase::done);
  REQUIRE(run.status.items.size() == 1);
  CHECK(run.status.items[0].files == 2);
  CHECK(run.status.items[0].bytes_total > 0);
  const auto fd = must(open_at(AT_FDCWD, run.job(), O_RDONLY));
  CHECK(field_text(run.status.items[0].name) == ctime_text(must(state_of_tree(fd.get())).ctime));
}

TEST_CASE("what was staged as shared can be compared without being changed") {
  ShareRun<StageRun> run(
      "mkdir -p d/e && echo x >d/e/f && tar cf t.tar --mode=a-rwx d && "
      "touch -d 2020-01-01 t.tar");
  run.add("t.tar").shared = true;
  run.decide(ShareRole::lead, "t");
  REQUIRE(run.run() == 0);
  REQUIRE(run.has_flag(k_item_whole));
  const int code = as_user([&run] {
    const auto fd = open_at(AT_FDCWD, run.job() + "/t", O_RDONLY);
    if (!fd) return 3;
    const auto before = state_of_tree(fd->get());
    const auto after = state_of_tree(fd->get());
    return before && after && before->files == 3 && before->ctime == after->ctime ? 0 : 1;
  });
  CHECK(code == 0);
}
