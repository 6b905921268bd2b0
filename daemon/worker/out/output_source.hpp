// Finds what the SOURCE of a --stage-out item names in the job directory.
#pragma once

#include <string>
#include <vector>

#include "common/result.hpp"
#include "daemon/worker/tree/job_tree.hpp"

namespace nodestage {

struct OutputSource {
  enum class Kind {
    missing,  // nothing has that name, or nothing matches
    file,     // one entry other than a directory
    directory,
    matches,  // the matches of a glob; links are not followed
  };
  Kind kind = Kind::missing;
  std::vector<std::string> paths = {};  // below the job directory, sorted; one unless `matches`
  // From find_results() (staged_data.hpp) only: matches that are no results, and those of `paths`
  // in which some is not.
  std::vector<std::string> unchanged = {};
  std::vector<std::string> changed = {};
  // Of `matches`: the names that the source's braces stand for of which there is nothing.
  std::vector<std::string> absent = {};
  // Of `missing`: there is a link of that name, which leads to nothing.
  bool is_dangling = false;
};

// A name that exists literally is used as it is; links are followed as long as they stay in the job
// directory. Otherwise its braces are expanded (common/text/glob_text.hpp), and then what they
// stand for as globs (daemon/worker/tree/glob_walk.hpp). A match in a directory that is another
// match is left out. Fails if a link leaves the directory, or a directory cannot be read.
Result<OutputSource> find_output_source(const JobTree& job, const std::string& source);

// Returns where one of its paths leads. A literal name means what it leads to; a match of a glob is
// taken as it is. Fails with ENOENT if it is gone.
Result<JobPlace> place_of(const JobTree& job, const OutputSource& source, const std::string& path);

}  // namespace nodestage
