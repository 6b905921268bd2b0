#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>

#include "mounted_images.hpp"
#include "squashfs_image.hpp"

using namespace nodestage;
namespace fs = std::filesystem;

namespace {

void fill_tree(const ImageSource& source) {
  source.write("a/text", some_bytes(300'000, 4, 1));
  source.write("a/random", some_bytes(1'500'000, 256, 2));
  source.write("empty", "");
  for (int i = 0; i < 500; ++i) source.write("many/file-" + std::to_string(i), std::to_string(i));
  fs::create_symlink("a/text", source.tree + "/link");
  fs::create_hard_link(source.tree + "/a/text", source.tree + "/same");
}

// The code of the fault with which a file is opened; 0: none.
int open_code(const std::string& path, int flags) {
  const Fd fd(::open(path.c_str(), flags | O_CLOEXEC, 0600));
  return fd ? 0 : errno;
}

struct stat facts(const std::string& path) {
  struct stat info {};
  REQUIRE(::lstat(path.c_str(), &info) == 0);
  return info;
}

}  // namespace

TEST_CASE("a job sees the tree of which the image was made") {
  if (!can_mount_images()) return;
  const ImageSource source;
  fill_tree(source);
  for (const std::string options : {"-comp zstd", "-comp lz4 -b 4096", "-noI -noD -noF"}) {
    CAPTURE(options);
    MountedImages mounted(1);
    mounted.place(0, source.pack(options));
    // Twice: the second time, the kernel has much of it.
    for (int i = 0; i < 2; ++i)
      CHECK(succeeds("diff -r --no-dereference '" + source.tree + "' '" + mounted.at(0) + "'"));
    CHECK(mounted.end() == 0);
    CHECK(mounted.status().phase == WorkerPhase::done);
  }
}

TEST_CASE("all belongs to the job's user, who can read it and not write it") {
  if (!can_mount_images()) return;
  const ImageSource source;
  source.write("closed/secret", "content");
  source.write("program", "#!/bin/sh\n");
  for (const auto& [name, mode] :
       {std::pair{"closed/secret", 0U}, {"closed", 0U}, {"program", 04711U}})
    REQUIRE(::chmod((source.tree + "/" + name).c_str(), mode) == 0);
  MountedImages mounted(1);
  mounted.place(0, source.pack("-force-uid 123 -force-gid 456"));
  const std::string top = mounted.at(0);
  CHECK(facts(top + "/closed").st_mode == (S_IFDIR | 0500U));
  CHECK(facts(top + "/closed/secret").st_mode == (S_IFREG | 0400U));
  CHECK(facts(top + "/program").st_mode == (S_IFREG | 0511U));
  CHECK(facts(top + "/program").st_uid == 0);
  CHECK(facts(top + "/program").st_gid == 0);
  CHECK(open_code(top + "/closed/secret", O_RDONLY) == 0);
  CHECK(open_code(top + "/closed/secret", O_RDWR) == EROFS);
  CHECK(open_code(top + "/new", O_WRONLY | O_CREAT) == EROFS);
  CHECK(open_code(top + "/none", O_RDONLY) == ENOENT);
  struct statvfs totals {};
  REQUIRE(::statvfs(top.c_str(), &totals) == 0);
  CHECK(totals.f_files == 4);
  CHECK(totals.f_bfree == 0);
}

TEST_CASE("before the image is there, the file system is empty, and nobody waits for it") {
  if (!can_mount_images()) return;
  const ImageSource source;
  source.write("file", "content");
  MountedImages mounted(1);
  struct statvfs totals {};
  REQUIRE(::statvfs(mounted.at(0).c_str(), &totals) == 0);
  CHECK(totals.f_blocks == 0);
  CHECK(facts(mounted.at(0)).st_mode == (S_IFDIR | 0500U));
  CHECK(facts(mounted.at(0)).st_nlink == 1);
  CHECK(open_code(mounted.at(0) + "/file", O_RDONLY) == EAGAIN);
  CHECK(open_code(mounted.at(0), O_RDONLY | O_DIRECTORY) == EAGAIN);
  mounted.place(0, source.pack(""));
  CHECK(facts(mounted.at(0)).st_nlink == 2);
  CHECK(open_code(mounted.at(0) + "/file", O_RDONLY) == 0);
  CHECK(open_code(mounted.at(0), O_RDONLY | O_DIRECTORY) == 0);
  CHECK(mounted.end() == 0);
}

TEST_CASE("an image that was given up ends its mount, without a fault") {
  if (!can_mount_images()) return;
  const ImageSource source;
  source.write("file", "content");
  MountedImages mounted(2);
  mounted.place(0, "/dev/null");
  struct statvfs totals {};
  CHECK(::statvfs(mounted.at(0).c_str(), &totals) != 0);
  CHECK(errno == ENOTCONN);
  mounted.place(1, source.pack(""));
  CHECK(open_code(mounted.at(1) + "/file", O_RDONLY) == 0);
  CHECK(mounted.end() == 0);
  CHECK(mounted.status().phase == WorkerPhase::done);
}

TEST_CASE("what is unmounted before its image is there ends what serves it") {
  if (!can_mount_images()) return;
  MountedImages mounted(1);
  struct statvfs totals {};
  REQUIRE(::statvfs(mounted.at(0).c_str(), &totals) == 0);
  CHECK(mounted.end() == 0);
}

TEST_CASE("images are served as they come, and one that is none does not keep another from it") {
  if (!can_mount_images()) return;
  const ImageSource source;
  source.write("file", "content");
  MountedImages mounted(3);
  mounted.place(2, source.pack(""));
  CHECK(open_code(mounted.at(2) + "/file", O_RDONLY) == 0);
  CHECK(mounted.status().phase == WorkerPhase::working);
  mounted.place(0, source.tree + "/file");
  CHECK(open_code(mounted.at(0) + "/file", O_RDONLY) == ENOTCONN);
  mounted.place(1, source.tree);
  CHECK(open_code(mounted.at(1) + "/file", O_RDONLY) == ENOTCONN);
  CHECK(open_code(mounted.at(2) + "/file", O_RDONLY) == 0);
  CHECK(mounted.end() == 1);
  CHECK(mounted.status().phase == WorkerPhase::failed);
  CHECK(has(mounted.status().cause, source.tree + ": it is not a regular file"));
}

TEST_CASE("an image that cannot be served is named, with the cause") {
  if (!can_mount_images()) return;
  const ImageSource source;
  source.write("file", "content");
  MountedImages mounted(1);
  mounted.place(0, source.tree + "/file");
  CHECK(open_code(mounted.at(0) + "/file", O_RDONLY) == ENOTCONN);
  CHECK(mounted.end() == 1);
  check_has(mounted.status().cause,
            {source.tree + "/file: ", "is not a squashfs image", "nodestage pack --image"});
}

TEST_CASE("what serves ends with the process that was started") {
  if (!can_mount_images()) return;
  const ImageSource source;
  source.write("file", "content");
  MountedImages mounted(2);
  mounted.place(0, source.pack(""));
  CHECK(open_code(mounted.at(0) + "/file", O_RDONLY) == 0);
  const Fd file(::open((mounted.at(0) + "/file").c_str(), O_RDONLY | O_CLOEXEC));
  ::kill(mounted.server(), SIGKILL);
  int code = EAGAIN;
  while (code == EAGAIN) code = open_code(mounted.at(1) + "/file", O_RDONLY);
  CHECK((code == ENOTCONN || code == ECONNABORTED));
  CHECK(mounted.end() == 128 + SIGKILL);
}
