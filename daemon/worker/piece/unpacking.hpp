// Unpacking: what of an archive or a directory is wanted, and whether an archive is unpacked.
#pragma once

#include <string>
#include <vector>

#include "common/request/request.hpp"
#include "daemon/worker/piece/newest.hpp"

namespace nodestage {

// By default all of it.
struct Unpacking {
  Unpacking() = default;
  Unpacking(const DatasetItem& item)  // NOLINT: as a dataset's options say
      : extract(item.extract),
        strip(item.strip),
        include(item.include),
        exclude(item.exclude),
        eof(item.eof) {}

  Extract extract = Extract::automatic;
  unsigned strip = 0;                // leading components of each entry's name to drop
  std::vector<std::string> include;  // globs on entry names; empty: everything
  std::vector<std::string> exclude;
  TarEnd eof = TarEnd::required;
  // Of a directory, these entries alone; null: all. What is not a directory is a fault then.
  // Borrowed.
  const NewestChoice* only = nullptr;
};

}  // namespace nodestage
