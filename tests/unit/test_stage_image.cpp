// Items with `mount`, as the worker stages them. In place of the mounts there are plain
// directories.
#include <doctest/doctest.h>

#include "stage_run.hpp"

using namespace nodestage;
namespace fs = std::filesystem;

namespace {

// The first image that a job mounts is i.sqsh.
struct ImageRun : StageRun {
  ImageRun()
      : StageRun(
            "mkdir d mount.0 mount.1 mem cache && echo a >d/a && mksquashfs d i.sqsh -quiet "
            "-no-progress -noappend -comp zstd >/dev/null && cp i.sqsh j.squashfs") {
    order.images.mounts = {mount(0)};
    order.cache_min_age_s = 0;
  }
  [[nodiscard]] std::string mount(int i) const { return data() + "/mount." + std::to_string(i); }
  DatasetItem& mounted(const std::string& name, const std::string& destination = "") {
    DatasetItem& item = add(name);
    item.destination = destination;
    item.mount = true;
    return item;
  }
  void share(ShareRole role, const std::string& tree) {
    order.cache = data() + "/cache";
    request.datasets.at(0).shared = true;
    order.shared = {{0, role, "0", order.cache + "/" + tree, "", false}};
  }
  // Where links below the job directory lead; "" for what is none.
  [[nodiscard]] std::string link(const std::string& name) const {
    std::error_code fault;
    return fs::read_symlink(job() + "/" + name, fault);
  }
  // The destination leads to the mount, and what serves it finds the image.
  void check_mounted(const std::string& destination, int i = 0) {
    CHECK(link(destination) == mount(i));
    CHECK(in_job("cmp " + image_link(static_cast<std::size_t>(i)) + " " + data() + "/i.sqsh"));
    CHECK(in_job("test ! -e .nodestage-partial"));
  }
};

}  // namespace

TEST_CASE("an image is copied aside, and its destination and variable are the mount's") {
  ImageRun run;
  run.order.images.mounts.push_back(run.mount(1));
  run.mounted("i.sqsh");
  run.add("d/a");
  run.mounted("j.squashfs", "x/set");
  REQUIRE(run.run() == 0);
  run.check_mounted("i", 0);
  run.check_mounted("x/set", 1);
  CHECK(run.link(image_link(0)) == run.job() + "/.nodestage-shared/i");
  CHECK(run.link(image_link(1)) == run.job() + "/.nodestage-shared/x/set");
  CHECK(run.what() == "squashfs image");
  CHECK(run.note() == "mounted, read-only");
  CHECK(run.status.items[0].bytes_written == fs::file_size(run.data() + "/i.sqsh"));
  CHECK(run.status.environment ==
        std::vector<std::string>{
            "NODESTAGE_DATASET=" + run.mount(0), "NODESTAGE_DATASET_I=" + run.mount(0),
            "NODESTAGE_DATASET_A=" + run.job() + "/a", "NODESTAGE_DATASET_X_SET=" + run.mount(1)});
}

TEST_CASE("an image goes to the memory, and nothing else of it does") {
  ImageRun run;
  run.order.memory.directory = run.data() + "/mem";
  run.mounted("i.sqsh", "x").storage = Storage::memory;
  REQUIRE(run.run() == 0);
  run.check_mounted("x");
  CHECK(run.link(image_link(0)) == run.order.memory.directory + "/.nodestage-shared/x");
  CHECK(run.note() == "mounted, read-only; in memory");
  CHECK(run.status.environment.at(0) == "NODESTAGE_DATASET=" + run.mount(0));
}

TEST_CASE("an image to be kept is read-only, and lies where the daemon takes it from") {
  ImageRun run;
  run.mounted("i.sqsh", "x");
  run.share(ShareRole::lead, "x");
  run.order.shared[0].key = identities_of(run.order, run.request).at(0).key;
  REQUIRE(run.order.shared[0].key.size() == k_share_key_bytes);
  REQUIRE(run.run() == 0);
  run.check_mounted("x");
  CHECK(run.in_job("test ! -w .nodestage-shared/x"));
  CHECK((run.status.items[0].flags & k_item_whole) != 0);
  CHECK((run.status.items[0].flags & k_item_spread) != 0);
  CHECK(run.note() == "mounted, read-only; shared: kept on this node for your further jobs");
  CHECK(run.status.environment.at(0) == "NODESTAGE_DATASET=" + run.mount(0));
}

TEST_CASE("an image that this node has is mounted from there, unless it is none") {
  ImageRun run;
  run.mounted("i.sqsh", "x").optional = true;
  run.share(ShareRole::link, "x");
  SUBCASE("it is one") {
    run.prepare("cp i.sqsh cache/x");
    REQUIRE(run.run() == 0);
    run.check_mounted("x");
    CHECK(run.link(".nodestage-shared/x") == run.data() + "/cache/x");
    CHECK(run.note() == "mounted, read-only; shared, already here");
  }
  SUBCASE("another job has kept a text") {
    run.prepare("echo text >cache/x");
    REQUIRE(run.run() == 0);
    CHECK(run.state() == ItemState::failed);
    CHECK(run.note().find("/i.sqsh: is not a squashfs image") != std::string::npos);
    CHECK(run.in_job("test -z \"$(find . ! -type d ! -name '.nodestage-image.*')\""));
  }
}

TEST_CASE("the keeper copies an image, and mounts nothing") {
  ImageRun run;
  run.order.images = {};
  run.order.for_readers = true;
  run.mounted("i.sqsh", "0/x");
  run.share(ShareRole::lead, "x");
  REQUIRE(run.run() == 0);
  CHECK(run.in_job("cmp 0/x " + run.data() + "/i.sqsh && test ! -e .nodestage-shared"));
  CHECK(run.link(image_link(0)) == "");
  CHECK((run.status.items[0].flags & k_item_spread) == 0);
}

TEST_CASE("a mounted item and another one with the same tree have the same key") {
  ImageRun run;
  run.order.cache = run.data() + "/cache";
  for (const bool mount : {false, true}) {
    run.add("i.sqsh").shared = true;
    run.request.datasets.back().destination = "x";
    run.request.datasets.back().mount = mount;
  }
  run.mounted("i.sqsh").shared = true;
  const auto identities = identities_of(run.order, run.request);
  CHECK(identities.at(0).why_not.empty());
  CHECK(identities.at(0).key == identities.at(1).key);
  CHECK(identities.at(1).key != identities.at(2).key);  // of another name
}

TEST_CASE("a worker that goes on after another one keeps its image and its links") {
  ImageRun run;
  run.mounted("i.sqsh", "x");
  REQUIRE(run.run() == 0);
  // As if the first worker had ended before it could report.
  run.prepare(
      "mkdir ../job/.nodestage-partial && printf '.nodestage-shared/x\\0x\\0' "
      ">../job/.nodestage-partial/complete");
  const auto before = fs::last_write_time(run.job() + "/.nodestage-shared/x");
  run.order.is_again = true;
  SUBCASE("all is there") {}
  SUBCASE("the links are not") { run.prepare("rm ../job/x ../job/.nodestage-image.0"); }
  SUBCASE("the image was not complete") {
    run.prepare("rm ../job/.nodestage-shared/x && : >../job/.nodestage-partial/complete");
  }
  REQUIRE(run.run() == 0);
  run.check_mounted("x");
  CHECK(fs::last_write_time(run.job() + "/.nodestage-shared/x") == before);
}

TEST_CASE("an image that is not served fails, and leaves no link to its mount") {
  ImageRun run;
  run.prepare("rmdir mount.0");  // The look at it fails, as when nobody serves it any more.
  DatasetItem& item = run.mounted("i.sqsh", "x");
  SUBCASE("the job needs it") {
    CHECK(run.run() == 1);
    CHECK(run.has_cause("/i.sqsh: cannot be mounted: the process that serves it has ended ("));
    CHECK(run.has_cause(
        "the image is damaged, or the process was stopped\nTest it with: unsquashfs -lc "));
  }
  SUBCASE("the job starts without it") {
    item.optional = true;
    REQUIRE(run.run() == 0);
    CHECK(run.state() == ItemState::failed);
    CHECK(run.status.environment.empty());
  }
  CHECK(run.in_job(
      "test -z \"$(find . ! -type d -path './.nodestage-*' ! -name '.nodestage-image.*' ! -path "
      "'./.nodestage-partial/*')\" && test ! -L x"));
  CHECK(run.link(image_link(0)) == "/dev/null");
}

TEST_CASE("what lies at an image's destination stays, and the image goes") {
  ImageRun run;
  run.mounted("i.sqsh", "x").optional = true;
  run.prepare("echo mine >../job/x");
  REQUIRE(run.run() == 0);
  CHECK(run.note().find("$SLURM_TMPDIR/x: already exists") != std::string::npos);
  CHECK(
      run.in_job("test \"$(cat x)\" = mine && test ! -e .nodestage-shared/x && "
                 "test \"$(readlink .nodestage-image.0)\" = /dev/null"));
}

TEST_CASE("an image that the job does not wait for has its destination in the variable") {
  ImageRun run;
  run.mounted("i.sqsh").async = true;
  REQUIRE(run.run() == 0);
  run.check_mounted("i");
  CHECK(run.status.environment.at(0) == "NODESTAGE_DATASET=" + run.job() + "/i");
}

TEST_CASE("what cannot be mounted fails before it is copied, with what to do") {
  ImageRun run;
  std::string name;
  std::string cause;
  SUBCASE("a tar") {
    run.prepare("tar cf d.tar d");
    name = "d.tar";
    cause = "/d.tar: is not a squashfs image";
  }
  SUBCASE("a directory") {
    name = "d";
    cause = "/d: is a directory, and only an image can be mounted\nMake one with: nodestage pack";
  }
  SUBCASE("an image that is cut off") {
    run.prepare("head -c 200 i.sqsh >short");
    name = "short";
    cause = "/short: cut off: the image has ";
  }
  run.mounted(name, "x");
  CHECK(run.run() == 1);
  CHECK(run.has_cause(cause));
  CHECK(run.in_job("test ! -e .nodestage-shared"));
}

TEST_CASE("an image without a mount fails with the reason, and the job if it needs it") {
  ImageRun run;
  run.mounted("i.sqsh", "x");
  SUBCASE("this node has none") {
    run.order.images = {{}, "/dev/fuse does not exist"};
    CHECK(run.run() == 1);
    CHECK(
        run.has_cause("images cannot be mounted on node n1: /dev/fuse does not exist\nLeave out "
                      "mount"));
  }
  SUBCASE("the job starts without it") {
    run.order.images = {{}, "/dev/fuse does not exist"};
    run.request.datasets[0].optional = true;
    REQUIRE(run.run() == 0);
    CHECK(run.state() == ItemState::failed);
    CHECK(run.status.environment.empty());
  }
  SUBCASE("the daemon has counted others") {
    run.order.images.mounts.push_back(run.mount(1));
    CHECK(run.run() == 1);
    CHECK(run.has_cause("node n1 has 2 mounts for 1 image\n"));
  }
}

TEST_CASE("an image without mount is copied, with a note that names the key") {
  ImageRun run;
  run.order.images = {};
  run.add("i.sqsh");
  run.prepare("cp i.sqsh data.bin");
  run.add("data.bin");
  run.add("d/a");
  REQUIRE(run.run() == 0);
  CHECK(run.in_job("cmp i.sqsh data.bin && test ! -e .nodestage-shared"));
  for (const std::size_t i : {0U, 1U})
    CHECK(run.note(i) == "copied as it is: it is a squashfs image; the key mount mounts it");
  CHECK(run.note(2).empty());
}
