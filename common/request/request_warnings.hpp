// Warns at submit about what is probably a mistake but could be intended.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/request/request.hpp"

namespace nodestage {

// Looks at a dataset's source as the submitting user sees it now.

// Returns true for a name that exists literally and for a glob with at least one match. Returns
// true if that cannot be determined (in an unreadable directory, or behind a "**"), since it is
// used for a warning only. Of a source with braces, each name must exist.
bool source_exists(const std::string& source);

// The first of these names that does not exist, or the source itself; "": all exist.
std::string missing_part(const std::string& source);

// Looks, before the job runs, at an output's target as the submitting user sees it.

// Returns why the output probably cannot be delivered to its target, in a sentence; "" when nothing
// speaks against it. Looks at the target, or at what exists of the path to it, and changes nothing.
// What lies behind a pattern such as %j is not known yet.
std::string about_target(const OutputItem& item);

// Warns of several writers of one target: of two files with the same name, only one remains.
// Sentences have one line each, are not made printable, and follow from the options' text alone.

// Warns of the tasks of an array, where the target names neither the task (%a) nor its job (%j).
std::vector<std::string> tasks_of_one_target(const std::vector<OutputItem>& outputs);

// Warns of components of a heterogeneous job, each of which is a job (%j, %A). `earlier` has the
// outputs of the components before this one.
std::vector<std::string> components_of_one_target(const std::vector<OutputItem>& outputs,
                                                  const std::vector<OutputItem>& earlier);

// When staging starts: for a job later, so a missing source can still appear; for `run` now.
enum class Start { now, later };

struct RequestLook {
  // Printable sentences of one line each, without a "warning:" prefix.
  std::vector<std::string> warnings;
  // The least number of bytes that go to a node's disk: the sizes of the files that are datasets'
  // sources (an archive counts with its packed size). Globs, directories, and filtered or optional
  // datasets are not counted.
  std::uint64_t least_bytes = 0;
};

// Looks at the names and stat(2) of sources and targets, and whether a directory with newest= is
// empty. A file system that does not answer makes this wait forever.
// `array`: sbatch's --array=, of which the first and the last task's sources are looked at; "": the
// job is none.
RequestLook look_at_request(const StageRequest& request, Start start,
                            const std::string& array = "");

// Does the same for at most a few seconds. After that, the result has one warning, which says so.
RequestLook look_in_time(const StageRequest& request, Start start, const std::string& array = "");

}  // namespace nodestage
