// Attack: while the worker writes, another process of the same user (of a job whose code is not its
// own) puts a symbolic link in place of a directory that the worker is about to write into.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <stdio.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "../unit/metered.hpp"
#include "../unit/scratch.hpp"
#include "common/os/file.hpp"
#include "crafted_archives.hpp"
#include "daemon/worker/piece/piece.hpp"

using namespace nodestage;
using namespace crafted;
namespace fs = std::filesystem;

namespace {

constexpr int k_directories = 40;
constexpr int k_files = 20;

// Entries that come back to each directory over and over, so that no cache can serve them all.
std::string wandering_tar() {
  std::vector<TarHeader> headers;
  for (int file = 0; file < k_files; ++file) {
    for (int directory = 0; directory < k_directories; ++directory) {
      headers.push_back(
          {"top/d" + std::to_string(directory) + "/f" + std::to_string(file), '0', "", "evil"});
    }
  }
  return tar(headers);
}

// Swaps "top" with a link to the victim, back and forth, until told to end.
void swap_directories(const std::string& out, const std::string& victim,
                      const std::atomic<bool>& over, std::atomic<int>& swaps) {
  const std::string top = out + "/top";
  const std::string link = out + "/link";
  std::error_code ignored;
  while (!over) {
    if (!fs::is_symlink(fs::symlink_status(link, ignored)) &&
        !fs::is_symlink(fs::symlink_status(top, ignored))) {
      fs::create_symlink(victim, link, ignored);
    }
    if (::renameat2(AT_FDCWD, top.c_str(), AT_FDCWD, link.c_str(), RENAME_EXCHANGE) == 0) ++swaps;
  }
}

}  // namespace

TEST_CASE("a link that comes and goes in place of a directory lets nothing out") {
  const Scratch scratch;
  const std::string victim = scratch / "victim";
  fs::create_directory(victim);
  for (int i = 0; i < k_directories; ++i) fs::create_directory(victim + "/d" + std::to_string(i));
  std::ofstream(scratch / "evil.tar", std::ios::binary) << wandering_tar();

  int swapped_runs = 0;
  for (int run = 0; run < 4 || (swapped_runs == 0 && run < 100); ++run) {
    const std::string out = scratch / ("out" + std::to_string(run));
    std::atomic<bool> over = false;
    std::atomic<int> swaps = 0;
    std::thread attacker([&] { swap_directories(out, victim, over, swaps); });
    {
      MeteredRoom room(scratch.path());
      auto piece = Piece::open(scratch / "evil.tar", DatasetItem(), room.meter, {3});
      REQUIRE(piece);
      // It may fail, since a link is in its way, and it may win.
      const Status built =
          piece->build({room.dir.get(), "out" + std::to_string(run), 022, room.space});
      if (!built) CHECK(built.error().text().find("evil.tar") != std::string::npos);
    }
    over = true;
    attacker.join();
    if (swaps > 0) ++swapped_runs;
  }
  CHECK(swapped_runs > 0);
  for (const auto& entry : fs::recursive_directory_iterator(victim))
    CHECK_MESSAGE(entry.is_directory(), entry.path().string());
}
