// Where an ELF file tells the loader to look for its libraries (DT_RPATH, DT_RUNPATH; System V ABI,
// "Dynamic Section").
#pragma once

#include <string>

namespace nodestage {

// Both, joined by ':'; "" for a file that has none, is none of this machine's kind, or is damaged.
std::string elf_search_path(int fd);

}  // namespace nodestage
