// Unpacking: what of an archive or a directory is wanted, and whether an archive is unpacked.
#pragma once

#include <string>
#include <vector>

#include "common/request/request.hpp"
#include "daemon/worker/piece/newest.hpp"
#include "daemon/worker/tree/out_links.hpp"

namespace nodestage {

// By default all of it.
struct Unpacking {
  Unpacking() = default;
  // An archive of an environment needs no name that says so: any other file lists requirements.
  static Unpacking of_venv() {
    Unpacking unpacking;
    unpacking.is_by_content = true;
    return unpacking;
  }
  Unpacking(const DatasetItem& item)  // NOLINT: as a dataset's options say
      : extract(item.extract),
        strip(item.strip),
        include(item.include),
        exclude(item.exclude),
        chooses_files(item.newest > 0),
        eof(item.eof),
        links(item.links == Links::follow ? LinksOut::followed : LinksOut::kept) {}

  Extract extract = Extract::automatic;
  bool is_by_content = false;  // an archive is unpacked whatever its name is; a file is copied
  unsigned strip = 0;          // leading components of each entry's name to drop
  std::vector<std::string> include;  // globs on entry names; empty: everything
  std::vector<std::string> exclude;
  bool chooses_files = false;  // by newest=: include and exclude are also for the names of files
  bool is_match = false;  // of a glob: exclude is also for the directories that it would search
  TarEnd eof = TarEnd::required;
  LinksOut links = LinksOut::kept;  // of a directory
  // Of a directory, these entries alone; null: all. What is not a directory is a fault then.
  // Borrowed.
  const NewestChoice* only = nullptr;
};

}  // namespace nodestage
