// Attack: a job mounts an image whose bytes are made to harm the process that serves it. What goes
// wrong, goes wrong for that image alone: its reader gets an error, and the job's other image is
// served on.
#include <doctest/doctest.h>
#include <fcntl.h>

#include <filesystem>
#include <fstream>

#include "../unit/mounted_images.hpp"
#include "../unit/squashfs_image.hpp"
#include "daemon/worker/sandbox/sandbox.hpp"
#include "mutations.hpp"

using namespace nodestage;

namespace {

// The sanitizers need what the sandbox forbids.
Status confine() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  const Sandbox sandbox = enter_sandbox(Profile::serve, Special::skip, {});
  if (!sandbox.calls_filtered) return Error{EPERM, sandbox.fault + sandbox.lacking};
#endif
  return {};
}

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Reads all that is there, as far as it can be read. A directory may lead to itself, so not deep.
void read_all_below(const std::string& path) {
  static_cast<void>(succeeds("cd '" + path +
                             "' 2>/dev/null && find . -maxdepth 4 -type f 2>/dev/null | "
                             "head -200 | while IFS= read -r f; do head -c 1000000 \"$f\"; done "
                             ">/dev/null 2>&1"));
}

}  // namespace

TEST_CASE("attack: a damaged image, whose reader gets an error while another image is served") {
  if (!can_mount_images()) return;
  const ImageSource source;
  source.write("d/text", some_bytes(90'000, 4, 1));
  source.write("d/random", some_bytes(20'000, 256, 2));
  for (int i = 0; i < 30; ++i) source.write("small/" + std::to_string(i), std::to_string(i));
  const std::string good = source.pack("-comp zstd", "good");
  const std::string plain = bytes_of(source.pack("-noI -noD -noF -noX -b 4096", "plain"));
  const auto tables = static_cast<std::size_t>(little_endian<std::uint64_t>(plain, 64));
  Mutations mutations(3, {std::string(4, '\xff'), std::string(8, '\0')});
  for (int i = 0; i < 12; ++i) {
    CAPTURE(i);
    std::string bytes = plain;
    for (int j = 0; j < 6; ++j)
      bytes[tables + mutations.below(plain.size() - tables)] =
          static_cast<char>(mutations.below(256));
    const std::string bad = source.scratch / ("bad-" + std::to_string(i));
    std::ofstream(bad, std::ios::binary) << bytes;
    MountedImages mounted(2, confine);
    mounted.place(0, bad);
    mounted.place(1, good);
    read_all_below(mounted.at(0));
    CHECK(succeeds("diff -r '" + source.tree + "' '" + mounted.at(1) + "'"));
    CHECK(mounted.end() <= 1);  // no crash
  }
}

TEST_CASE("attack: an image is changed while it is served") {
  if (!can_mount_images()) return;
  const ImageSource source;
  for (unsigned i = 0; i < 40; ++i) source.write(std::to_string(i), some_bytes(100'000, 200, i));
  const std::string image = source.pack("-comp lz4");
  const std::string good = source.pack("-comp zstd", "good");
  MountedImages mounted(2, confine);
  mounted.place(0, image);
  mounted.place(1, good);
  CHECK(succeeds("cmp '" + source.tree + "/7' '" + mounted.at(0) + "/7'"));
  std::filesystem::resize_file(image, 5000);
  read_all_below(mounted.at(0));
  CHECK_FALSE(succeeds("cat '" + mounted.at(0) + "/30' >/dev/null 2>&1"));
  CHECK(succeeds("diff -r '" + source.tree + "' '" + mounted.at(1) + "'"));
  CHECK(mounted.end() == 1);
  CHECK(has(mounted.status().cause, "it has become shorter"));
}
