// nodestage pack DIR -o FILE
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

#include "cli/base/signals.hpp"
#include "common/os/file.hpp"
#include "common/result.hpp"
#include "common/talk/task_voice.hpp"
#include "daemon/worker/tree/out_links.hpp"
#include "daemon/worker/tree/pending_file.hpp"

namespace nodestage {

// Where a file that `nodestage pack` makes gets its name.
enum class Overwrite { refuse, replace };

struct OutputLocation {
  Fd directory;
  std::string name;
};

Result<OutputLocation> open_place(const std::string& output);

// The temporary names of this process.
PendingNames pack_names();

// Syncs the file and gives it its name.
Status put_in_place(Fd file, const PendingName& pending, const OutputLocation& place,
                    Overwrite overwrite);

// PackWatch: what `nodestage pack` does on its own thread while others work: it shows their
// progress, and handles signals.
class PackWatch {
 public:
  // `name`: of what is packed. The signals are borrowed.
  PackWatch(const std::string& name, Signals& signals);

  // Waits for a short time. True: a signal came that ends all, which signal() returns from then on.
  bool was_stopped();
  [[nodiscard]] int signal() const { return signal_; }

  // Shows `progress`, in which the reader or writer has set the bytes and the files.
  void show(Progress progress);
  void clear() { voice_.clear(); }
  [[nodiscard]] std::uint64_t elapsed_ms() const;

 private:
  const std::string name_;
  Signals& signals_;
  TaskVoice voice_;
  const Deadline begun_ = Clock::now();
  int signal_ = 0;
};

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
  std::string output;  // *.tar.zst, *.tzst or *.tar
  std::string mtime;   // for all entries; empty: each keeps its own
  Overwrite overwrite = Overwrite::refuse;
  LinksOut links = LinksOut::kept;  // that lead out of the directory
};

// Packs a directory's contents into an archive that every tar can read and staging extracts with
// several threads. The archive gets its name once it is complete and on disk, or not at all. Exit
// code: 0; 1: a fault; k_wrong_usage; 128 + n: signal n stopped it.
int pack_directory(const PackArguments& arguments);

}  // namespace nodestage
