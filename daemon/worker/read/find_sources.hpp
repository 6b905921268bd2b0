// Finds the files that a dataset's source means.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/result.hpp"

namespace nodestage {

struct FoundSources {
  std::vector<std::string> paths;
  bool is_group = false;       // `paths` are the sorted matches of a glob
  std::uint64_t specials = 0;  // FIFOs, sockets, and devices that match, and are none of `paths`
};

// Finds the files of a source, which is a glob only if no file has exactly that name. Each name
// that its braces stand for must exist, or match something. A match in a directory that is another
// match is left out. A directory that cannot be searched is a fault, unless it is one that
// `excludes` leaves out: by its path below the start of the glob. Faults include advice for the
// user.
Result<FoundSources> find_sources(const std::string& source,
                                  std::function<bool(const std::string& below)> excludes = {});

}  // namespace nodestage
