// nodestage pack DIR -o FILE
#pragma once

#include <string>

#include "cli/pack/output_place.hpp"
#include "daemon/worker/tree/out_links.hpp"

namespace nodestage {

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
