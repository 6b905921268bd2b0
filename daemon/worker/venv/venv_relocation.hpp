// VenvRelocation: one pass over a Python environment that was copied, extracted, or built under one
// path and will be used under another: all that names the old path names the new one afterwards.
//
// Rewritten: texts (as in venv_text.hpp) up to 8 MiB, scripts up to 64 MiB, links, hashes in
// RECORD; with Strings::move also strings in binaries; and what conda's records list, of any size.
// .pyc files are not: Python corrects their path when it loads them. Nothing outside of the
// directory is touched, whatever links there are: files are replaced by new ones, in directories
// that were opened without following links. Modes stay.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "daemon/worker/budget/meter.hpp"
#include "daemon/worker/tree/tree_walk.hpp"
#include "daemon/worker/venv/conda_prefix.hpp"
#include "daemon/worker/venv/venv_text.hpp"

namespace nodestage {

// Reads an ELF file's library search paths (DT_RPATH, DT_RUNPATH; System V ABI, "Dynamic Section").

// Returns both, joined by ':'; "" for a file that has none, is for another kind of machine, or is
// damaged.
std::string elf_search_path(int fd);

// Makes a directory writable to its owner, which writing needs, while this object is there.
class WritableDirectory {
 public:
  explicit WritableDirectory(int fd);  // borrowed, O_PATH is enough
  WritableDirectory(const WritableDirectory&) = delete;
  WritableDirectory& operator=(const WritableDirectory&) = delete;
  ~WritableDirectory();

 private:
  int fd_;
  mode_t mode_ = 0;
  bool changed_ = false;
};

class VenvRelocation {
 public:
  enum class Strings { keep, move };
  struct Options {
    PrefixFiles prefixes = {};        // of a conda environment
    EnvPython env = EnvPython::keep;  // scripts in bin with `/usr/bin/env python`
    Strings strings = Strings::keep;  // in binaries
    std::string origin;               // the path from which links with ".." start; "" if not known
    std::string interpreter;  // without links; k_own_python has a copy of it. "": it has none
  };

  // Borrows everything; dir_fd (O_PATH is enough) is the environment's directory.
  VenvRelocation(int dir_fd, const VenvMove& move, Options options, const Meter& meter)
      : root_(dir_fd),
        move_(move),
        prefix_(move.from(), move.to(), VenvMove::Match::prefix),
        options_(std::move(options)),
        meter_(meter) {}

  Status run();

  // Returns, after run(), source files below lib/pythonX.Y without a valid compiled file, by their
  // paths below the environment.
  [[nodiscard]] std::vector<std::string> uncompiled() const;
  // Returns what still names the old path or is read from outside, and what to do.
  [[nodiscard]] std::vector<std::string> notes() const;
  // Returns whether there are files of options.prefixes, and none contains a path of move.from().
  [[nodiscard]] bool is_from_elsewhere() const { return listed_ > 0 && matched_ == 0; }
  [[nodiscard]] std::uint64_t files() const { return files_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] std::uint64_t rewritten() const { return rewritten_; }

 private:
  struct Finding {
    std::uint64_t count = 0;
    std::string first;
  };
  struct Stamp {
    std::uint32_t mtime;
    std::uint32_t size;
    bool operator==(const Stamp&) const = default;
  };

  Status step(const TreeWalk& walk, const WalkStep& step);
  Status link(const WalkStep& step, const std::string& path);
  Status link_to(const WalkStep& step, const std::string& path, const std::string& target);
  [[nodiscard]] std::string own_python(const std::string& path, const std::string& target) const;
  Status file(const WalkStep& step, const std::string& path);
  Status content(const WalkStep& step, const std::string& path, int fd);
  Status listed(const WalkStep& step, const std::string& path, int fd, const PrefixFile& file);
  std::optional<std::string> moved(const std::string& path, const std::string& content);
  void learn(const std::string& path, const std::string& content);
  void compiled(const std::string& path, int fd);
  Status replace(const WalkStep& step, const std::string& path, std::string_view content,
                 const std::vector<StringPatch>& patches = {});
  Status update_records();
  Status update_record(const std::string& path);
  static void add(Finding& finding, const std::string& what);

  const int root_;
  const VenvMove& move_;
  const VenvMove prefix_;  // the same, in the files of options_.prefixes
  const Options options_;
  const Meter& meter_;
  std::uint64_t files_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t rewritten_ = 0;
  std::uint64_t listed_ = 0;   // files of options_.prefixes
  std::uint64_t matched_ = 0;  // those among them that contained the path
  std::vector<std::string> records_;
  std::unordered_map<std::string, std::string> fresh_;  // rewritten file → "sha256=...,SIZE"
  std::unordered_map<std::string, Stamp> sources_;      // .py files below lib/pythonX.Y
  std::unordered_map<std::string, Stamp> compiled_;     // .pyc → its source
  std::map<std::string, std::string> outside_;  // editable sources → the packages that name them
  Finding libraries_;
  Finding strings_;
  Finding links_;
};

}  // namespace nodestage
