// Resolves the TARGET of a --stage-out item: patterns, the node's name, what lands where.
#pragma once

#include <sys/types.h>

#include <string>

#include "common/os/fd.hpp"
#include "common/request/request.hpp"
#include "common/result.hpp"
#include "common/text/name_pattern.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/worker/out/output_source.hpp"

namespace nodestage {

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
