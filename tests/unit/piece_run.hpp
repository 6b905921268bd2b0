// PieceRun: one Piece built in this process, below a scratch directory.
#pragma once

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <string>

#include "daemon/worker/piece/piece.hpp"
#include "metered.hpp"
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

// Shell commands in a scratch directory.
class ShellRun {
 public:
  Scratch scratch;

  void prepare(const std::string& command) const { REQUIRE(shell(command) == 0); }
  // Returns the exit code.
  [[nodiscard]] int shell(const std::string& command) const {
    return std::system(
        ("cd " + scratch.path().string() + " && { " + command + " ; } 2>&1").c_str());
  }
};

class PieceRun : public ShellRun {
 public:
  // With what a shell command makes in the scratch directory.
  explicit PieceRun(const std::string& command = ":") { prepare(command); }

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
    MeteredRoom room(scratch.path(), leave_free, memory);
    room.meter.bytes_written = written_before;
    nodestage::Unpacking wanted(item);
    wanted.is_by_content = is_by_content;
    auto piece = nodestage::Piece::open(path, wanted, room.meter,
                                        {.threads = threads, .rules = rules, .settle = settle});
    if (!piece) return piece.error().text();
    kind = piece->kind();
    name = piece->default_name();
    out_ = "out" + std::to_string(++count_);
    const nodestage::Status built = piece->build({room.dir.get(), out_, 022, room.space});
    note = piece->note();
    link_note = piece->link_note();
    idle_globs = piece->idle_globs();
    bytes_read = room.meter.bytes_read;
    return built ? "" : built.error().text();
  }

  // Whether what was built last, or a part of it, is as something in the scratch directory.
  [[nodiscard]] bool is_same(const std::string& as, const std::string& below = "") const {
    return shell("diff -r --no-dereference " + as + " " + out(below)) == 0;
  }
  void drop() const { std::filesystem::remove_all(out()); }

  std::uint64_t bytes_read = 0;
  [[nodiscard]] std::string out(const std::string& below = "") const {
    return scratch / out_ + (below.empty() ? "" : "/" + below);
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
