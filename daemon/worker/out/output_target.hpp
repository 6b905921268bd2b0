// Resolves the TARGET of a --stage-out item: patterns, the node's name, what lands where.
#pragma once

#include <sys/types.h>

#include <set>
#include <string>
#include <vector>

#include "common/os/file.hpp"
#include "common/request/request.hpp"
#include "common/result.hpp"
#include "common/text/glob_text.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/worker/tree/job_tree.hpp"

namespace nodestage {

// Finds what the SOURCE of a --stage-out item names in the job directory.
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
  std::set<std::string> in_memory = {};  // items at and below matches that are there
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
Result<ResolvedPath> place_of(const JobTree& job, const OutputSource& source,
                              const std::string& path);

struct OutputTarget {
  enum class Form {
    contents,  // the contents of the source directory land in `directory`
    inside,    // each source lands in `directory` under its base name
    named,     // the one source becomes `directory`/`name`, or lands inside if that is a directory
    archive,   // one archive, `directory`/`name`, with the format of `suffix`
  };
  Form form = Form::contents;
  std::string directory;  // absolute
  std::string name;
  std::string suffix;  // ".tar.zst"

  [[nodiscard]] std::string path() const;
};

// Returns the values of patterns. Outside of an array, %A is the job id and %a is 4294967294, as in
// Slurm's own file names.
PatternFacts pattern_facts(const NamedOrder& order);
// The same without Slurm's own value of %a outside an array, a number that is useless in a path.
PatternFacts strict_pattern_facts(const NamedOrder& order);

// Resolves without a look at the file system. With several nodes and no %N or %n in TARGET, the
// node's name is inserted: TARGET/<node>/… or x.<node>.tar.zst. Refuses a pattern whose value is
// not known (ENODATA).
//
// An archive's suffix in TARGET requests packing. A single file whose name is an archive's is not
// packed again, unless `pack` requests it.
Result<OutputTarget> place_output(const OutputItem& item, const NamedOrder& order,
                                  const OutputSource& source);

// Opens a directory, following links as its user would, and creates what is missing of its path
// (mode 0777 less the process's umask, and the last one with that mode). Others may create the same
// at the same time.
Result<Fd> make_directories(const std::string& path, mode_t last_mode = 0777);

}  // namespace nodestage
