// The SOURCE of a --stage-out item: what it names in the job directory.
#pragma once

#include <string>
#include <vector>

#include "common/result.hpp"

namespace nodestage {

struct OutputSource {
  enum class Kind {
    missing,  // nothing of that name, or no match
    file,     // one thing that is no directory
    directory,
    matches,  // what a glob found, links not followed
  };
  Kind kind = Kind::missing;
  std::vector<std::string> paths;  // below the job directory, sorted; one unless `matches`
};

// A name that exists literally is taken as that, links followed as long as they stay below
// directory_fd; else a glob is expanded, component by component: "*" does not match what starts
// with '.', and nothing matches ".nodestage…". A fault: a link leaves the directory, or a directory
// cannot be read.
Result<OutputSource> find_output_source(int directory_fd, const std::string& source);

}  // namespace nodestage
