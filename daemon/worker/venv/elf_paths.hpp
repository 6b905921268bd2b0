// Reads an ELF file's library search paths (DT_RPATH, DT_RUNPATH; System V ABI, "Dynamic Section").
#pragma once

#include <string>

namespace nodestage {

// Returns both, joined by ':'; "" for a file that has none, is for another kind of machine, or is
// damaged.
std::string elf_search_path(int fd);

}  // namespace nodestage
