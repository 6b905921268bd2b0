// Finds the files that a dataset's source means.
#pragma once

#include <string>
#include <vector>

#include "common/result.hpp"

namespace nodestage {

struct FoundSources {
  std::vector<std::string> paths;
  bool is_group = false;  // `paths` are the sorted matches of a glob
};

// Finds the files of a source, which is a glob only if no file has exactly that name. Each name
// that its braces stand for must exist, or match something. A match in a directory that is another
// match is left out. Faults include advice for the user.
Result<FoundSources> find_sources(const std::string& source);

}  // namespace nodestage
