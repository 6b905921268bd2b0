// The SOURCE of a --stage-out item: what it names in the job directory.
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
  std::vector<std::string> paths;  // below the job directory, sorted; one unless `matches`
};

// A name that exists literally is used as it is; links are followed as long as they stay in the job
// directory. Otherwise it is expanded as a glob, component by component: "*" does not match
// names that start with '.', and nothing matches ".nodestage…". A fault: a link leaves the
// directory, or a directory cannot be read.
Result<OutputSource> find_output_source(const JobTree& job, const std::string& source);

// Where one of its paths leads. A literal name means what it leads to; a match of a glob is taken
// as it is. ENOENT: it is not there any more.
Result<JobPlace> place_of(const JobTree& job, const OutputSource& source, const std::string& path);

}  // namespace nodestage
