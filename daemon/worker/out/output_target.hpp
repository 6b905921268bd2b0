// The TARGET of a --stage-out item: patterns, the node's own part, and what lands where.
#pragma once

#include <string>

#include "common/os/fd.hpp"
#include "common/request/request.hpp"
#include "common/result.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/worker/out/output_source.hpp"

namespace nodestage {

struct OutputTarget {
  enum class Form {
    contents,  // the contents of the source directory land in `directory`
    inside,    // each source lands in `directory` under its base name
    named,     // the one source becomes `directory`/`name`, or lands inside that if it is one
    archive,   // one archive, `directory`/`name`, whose format `suffix` tells
  };
  Form form = Form::contents;
  std::string directory;  // absolute
  std::string name;
  std::string suffix;  // ".tar.zst"

  [[nodiscard]] std::string path() const;
};

// Nothing here looks at the file system. With several nodes and no %N or %n in TARGET, the node's
// name is put in: TARGET/<node>/… or x.<node>.tar.zst. Outside an array %A is the job id and %a
// 4294967294, as in Slurm's own file names. A fault: a pattern whose value is not known (ENODATA).
//
// A suffix of an archive in TARGET asks for packing; but one file that is an archive by its own
// name is not packed once more, unless `pack` asks for it.
Result<OutputTarget> place_output(const OutputItem& item, const WorkerOrder& order,
                                  const OutputSource& source);

// Opens a directory, following links as its user would, and makes what is missing of it (mode
// 0777 less the process's umask). Others may make the same at the same time.
Result<Fd> make_directories(const std::string& path);

}  // namespace nodestage
