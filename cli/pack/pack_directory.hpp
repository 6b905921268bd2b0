// nodestage pack DIR -o FILE
#pragma once

#include <string>

namespace nodestage {

enum class Overwrite { refuse, replace };

struct PackArguments {
  std::string directory;
  std::string output;  // *.tar.zst, *.tzst or *.tar
  std::string mtime;   // of all entries; empty: each its own
  Overwrite overwrite = Overwrite::refuse;
};

// The contents of a directory as an archive that any tar reads, and that staging extracts by many
// threads. It comes to its name when it is whole and on disk, or not at all. The exit code: 0; 1;
// k_wrong_usage; 128 + n when signal n has ended it.
int pack_directory(const PackArguments& arguments);

}  // namespace nodestage
