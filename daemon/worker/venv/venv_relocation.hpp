// Relocation: one pass over a Python environment that was copied, extracted, or built under one
// path and will be used under another: all that names the old path names the new one afterwards.
//
// Rewritten: texts (as in venv_text.hpp) up to 8 MiB, scripts up to 64 MiB, links, hashes in
// RECORD; with RelocationOptions::Strings::move also strings in binaries; and what conda's records
// list, of any size. .pyc files are not: Python corrects their path when it loads them. Nothing
// outside of the directory is touched, whatever links there are: files are replaced by new ones, in
// directories that were opened without following links. Modes stay.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
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

struct RelocationOptions {
  PrefixFiles prefixes = {};        // of a conda environment
  EnvPython env = EnvPython::keep;  // scripts in bin with `/usr/bin/env python`
  enum class Strings { keep, move } strings = Strings::keep;  // in binaries
  std::string origin;       // the path from which links with ".." start; "" if not known
  std::string interpreter;  // without links; k_own_python has a copy of it. "": it has none
};

struct Relocated {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
  // Source files below lib/pythonX.Y without a valid compiled file, by their paths below the
  // environment.
  std::vector<std::string> uncompiled;
  // What still names the old path or is read from outside, and what to do.
  std::vector<std::string> notes;
  // There are files of options.prefixes, and none contains a path of move.from().
  bool is_from_elsewhere = false;
};

// `dir_fd` (O_PATH is enough) is the environment's directory.
Result<Relocated> relocate_environment(int dir_fd, const VenvMove& move,
                                       const RelocationOptions& options, const Meter& meter);

}  // namespace nodestage
