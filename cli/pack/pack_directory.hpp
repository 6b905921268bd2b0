// nodestage pack DIR -o FILE
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

#include "common/os/file.hpp"
#include "daemon/worker/tree/out_links.hpp"

namespace nodestage {

// Whether a file of that name may be there already.
enum class Overwrite { refuse, replace };

// TreeTotal: counts the bytes of a tree while it is packed, in a thread of its own.
class TreeTotal {
 public:
  // Borrows the directory until it returns. A tree that cannot be walked has no total, nor has one
  // for which there is no memory or no thread.
  explicit TreeTotal(int directory);
  TreeTotal(const TreeTotal&) = delete;
  TreeTotal& operator=(const TreeTotal&) = delete;
  ~TreeTotal();

  // Returns the bytes of all regular files, each once however many names it has; 0: not known yet.
  // Holes count, which packing does not read.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

 private:
  void count(Fd directory);

  std::atomic<bool> stop_ = false;
  std::atomic<std::uint64_t> bytes_ = 0;
  std::thread counting_;
};

struct PackArguments {
  std::string directory;
  std::string output;  // *.tar.zst, *.tzst or *.tar; of an image (pack_image.hpp): *.sqsh
  std::string mtime;   // for all entries; empty: each keeps its own
  Overwrite overwrite = Overwrite::refuse;
  LinksOut links = LinksOut::kept;  // that lead out of the directory
};

// Packs a directory's contents into an archive that every tar can read and staging extracts with
// several threads. The archive gets its name once it is complete and on disk, or not at all. Exit
// code: 0; 1: a fault; k_wrong_usage; 128 + n: signal n stopped it.
int pack_directory(const PackArguments& arguments);

}  // namespace nodestage
