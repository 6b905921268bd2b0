// PieceRun: one Piece built in this process, below a scratch directory.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "daemon/worker/piece/piece.hpp"
#include "scratch.hpp"
#include "texts.hpp"

// 7-Zip's command: 7zz in Debian 12, whose 7z is p7zip, and 7z in later ones.
inline std::string seven_zip() {
  return std::system("command -v 7zz >/dev/null 2>&1") == 0 ? "7zz" : "7z";
}

// Whether zip writes links with data descriptors, as into a pipe: not before 3.0-13+deb12u1.
inline bool zip_streams_links() {
  const Scratch scratch;
  return std::system(("cd '" + scratch.path().string() +
                      "' && ln -s nothing l && zip -qy -fd - l >x.zip 2>/dev/null")
                         .c_str()) == 0;
}

class PieceRun {
 public:
  // With what a shell command makes in the scratch directory.
  explicit PieceRun(const std::string& command = ":") { prepare(command); }

  Scratch scratch;
  nodestage::DatasetItem item;
  std::string kind;
  std::string note;
  std::string link_note;
  std::string idle_globs;
  std::string name;
  std::uint64_t leave_free = 0;
  nodestage::MemoryShare memory;  // of all memory: the data go to a disk
  unsigned threads = 3;
  bool is_by_content = true;  // readers are tested with archives of any name
  nodestage::ExtractRules rules;
  nodestage::SettleRules settle = waits_for_nothing();
  std::uint64_t written_before = 0;  // by other sources of the same dataset

  // Builds "out1", "out2", … of a source in the scratch directory, or elsewhere; the fault, "" for
  // none.
  std::string build(const std::string& source) {
    const std::string path = source.starts_with('/') ? source : scratch / source;
    ::umask(022);
    nodestage::RateLimit rate(-1);
    const std::atomic<bool> stop = false;
    nodestage::Meter meter(rate, stop);
    meter.bytes_written = written_before;
    const nodestage::Fd dir(::open(scratch.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    nodestage::Allowance allowance({-1, -1, dir.get(), leave_free, "n1", memory}, stop);
    nodestage::Space space(dir.get(), allowance);
    nodestage::Unpacking wanted(item);
    wanted.is_by_content = is_by_content;
    auto piece = nodestage::Piece::open(path, wanted, meter,
                                        {.threads = threads, .rules = rules, .settle = settle});
    if (!piece) return piece.error().text();
    kind = piece->kind();
    name = piece->default_name();
    out_ = "out" + std::to_string(++count_);
    const nodestage::Status built = piece->build({dir.get(), out_, 022, space});
    note = piece->note();
    link_note = piece->link_note();
    idle_globs = piece->idle_globs();
    bytes_read = meter.bytes_read;
    return built ? "" : built.error().text();
  }

  void drop() const { std::filesystem::remove_all(out()); }

  std::uint64_t bytes_read = 0;
  [[nodiscard]] std::string out(const std::string& below = "") const {
    return scratch / out_ + (below.empty() ? "" : "/" + below);
  }

  void prepare(const std::string& command) const { REQUIRE(shell(command) == 0); }
  // A shell command in the scratch directory; its exit code.
  [[nodiscard]] int shell(const std::string& command) const {
    return std::system(
        ("cd " + scratch.path().string() + " && { " + command + " ; } 2>&1").c_str());
  }

 private:
  static nodestage::SettleRules waits_for_nothing() {
    nodestage::SettleRules settle;
    settle.young = nodestage::SettleRules::Time(0);
    settle.wait = [](nodestage::SettleRules::Time) {};
    return settle;
  }
  std::string out_;
  int count_ = 0;
};

// As a dataset: the name counts, too.
struct NamedRun : PieceRun {
  explicit NamedRun(const std::string& command = ":") : PieceRun(command) { is_by_content = false; }
};
