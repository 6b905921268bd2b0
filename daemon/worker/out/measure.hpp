// The `measure` task: measures how much of the disk a held tree takes.
#pragma once

#include <cstdint>

#include "common/result.hpp"

namespace nodestage {

struct TreeSize {
  std::uint64_t bytes = 0;   // on disk; a file with several hard links counts once
  std::uint64_t inodes = 0;  // entries of every kind; each name of a file counts
};

// Measures a tree but for what cannot be read. Borrows dir_fd.
Result<TreeSize> measure_tree(int dir_fd);

// Measures k_worker_directory_fd. Reports one ItemRecord with bytes_total and files (the inodes),
// and the phase done or failed. Needs the rights of the tree's owner. Returns the exit code.
int run_measure();

}  // namespace nodestage
