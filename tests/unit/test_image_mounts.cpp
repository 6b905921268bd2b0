#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "cli/run/image_mounts.hpp"
#include "common/os/file.hpp"
#include "fusermount.hpp"
#include "scratch.hpp"
#include "texts.hpp"

namespace fs = std::filesystem;
using namespace nodestage;

namespace {

Error why_not_mounted(const Scratch& scratch) {
  const auto images = ImageMounts::make(scratch.path(), 1);
  REQUIRE(!images);
  return images.error();
}

}  // namespace

TEST_CASE("a node without fusermount3 says in which package it is") {
  Scratch scratch;
  const WithPath path(scratch.path());
  const Error why = why_not_mounted(scratch);
  CHECK(why.code == ENOENT);
  CHECK(has(why.text(), "in the package fuse3"));
}

TEST_CASE("why nothing is mounted is what fusermount3 says, else how it ended") {
  struct Case {
    const char* script;
    const char* why;
  };
  const Case cases[] = {
      {"echo 'fusermount3: mount failed: Operation not permitted' >&2; echo more >&2; exit 1",
       "fusermount3: mount failed: Operation not permitted"},
      {"exit 3", "fusermount3 exited with code 3"},
      {"exit 0", "fusermount3 has sent no descriptor"},
  };
  for (const Case& each : cases) {
    CAPTURE(std::string(each.script));
    Scratch scratch;
    const Fusermount fusermount(scratch, each.script);
    CHECK(why_not_mounted(scratch).text() == each.why);
  }
}

TEST_CASE("what fusermount3 has mounted before it failed is detached") {
  Scratch scratch;
  const Fusermount fusermount(scratch, "case $* in *image.1) exit 1;; esac\n" + k_send);
  CHECK(!ImageMounts::make(scratch.path(), 2));
  CHECK(has(fusermount.detached(), scratch / "image.0"));
}

TEST_CASE("each image has a mount, read-only and for its user alone, until the run ends") {
  Scratch scratch;
  const Fusermount fusermount(scratch, k_send);
  {
    const auto images = must(ImageMounts::make(scratch.path(), 2));
    CHECK(images.paths() == std::vector<std::string>{scratch / "image.0", scratch / "image.1"});
    for (const std::string& path : images.paths())
      CHECK(has(fusermount.calls(),
                "-o ro,nosuid,nodev,fsname=nodestage,subtype=squashfs -- " + path));
    CHECK(fusermount.detached().empty());
  }
  CHECK(fusermount.detached() ==
        std::vector<std::string>{scratch / "image.0", scratch / "image.1"});
}

TEST_CASE("if the worker can serve no longer, its cause is returned, once") {
  Scratch scratch;
  const Fusermount fusermount(scratch, k_send);
  const std::string worker = scratch / "worker";
  write_script(worker, "echo 'x.sqsh: the image is damaged' >&2; exit 1");
  auto images = must(ImageMounts::make(scratch.path(), 1));
  const Fd directory = must(open_at(AT_FDCWD, scratch.path(), O_RDONLY | O_DIRECTORY));
  REQUIRE(images.serve({worker, ServeOrder(), "", directory.get(), -1, -1, {}}));
  std::optional<Error> why;
  while (!why) why = images.why_ended();
  CHECK(has(why->text(), "x.sqsh: the image is damaged"));
  CHECK(!images.why_ended());
}

TEST_CASE("the worker gets the descriptors of the mounts, and no other process keeps them") {
  Scratch scratch;
  const Fusermount fusermount(scratch, k_send);
  const std::string worker = scratch / "worker";
  write_script(worker, "readlink /proc/$$/fd/14 /proc/$$/fd/15 /proc/$$/fd/16 >" +
                           (scratch / "new") + "; mv " + (scratch / "new") + " " +
                           (scratch / "got") + "; exec sleep 1000");
  auto images = must(ImageMounts::make(scratch.path(), 2));
  const Fd directory = must(open_at(AT_FDCWD, scratch.path(), O_RDONLY | O_DIRECTORY));
  REQUIRE(images.serve({worker, ServeOrder(), "", directory.get(), -1, -1, {}}));
  while (!fs::exists(scratch / "got")) REQUIRE(!images.why_ended());
  CHECK(text_of(scratch / "got") == "/dev/zero\n/dev/zero\n/dev/null\n");
  for (const auto& each : fs::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    CHECK(fs::read_symlink(each.path(), gone) != "/dev/zero");
  }
}
