// Finds the results that are left in a job's directory when they could not be delivered.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/request/request.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/worker/tree/job_tree.hpp"

namespace nodestage {

// Returns the paths below the directory that --stage-out names, that exist, and whose when=
// applies; and what is kept because a name of --stage-out is missing (keeps_left()).
std::vector<std::string> kept_results(const StageRequest& request, const DeliveryOrder& order,
                                      const JobTree& directory);

// Returns whether an output must be there at the end: its when= applies, and it is not `optional`.
bool wants_results(const StageRequest& request, const DeliveryOrder& order);

// Returns whether a copy of these paths of the directory, as links and by their base names, would
// lack some of what they are: one of them is, or has below it, a link to elsewhere in the
// directory, or two have one name.
bool need_the_rest(const std::vector<std::string>& paths, const JobTree& directory);

// Returns "Fetch them with: cp -a /d/results ELSEWHERE && rm -rf /d"; without paths, of all.
std::string how_to_copy(const std::vector<std::string>& paths, const std::string& directory);

// Clears what a `nodestage run` that was killed has left, in the next one.

// Removes the directories of this user's runs below `parent` (absolute) that were killed on this
// node: the records, the job directories that they name, and those in memory. A job directory with
// results stays: `say` gets where it is, and how to copy them, once. What may belong to a run that
// lives on another node is left alone, and so is a job directory without a record. Once `must_stop`
// says yes, which it then always does, this returns soon, and a later call goes on with the rest.
void clear_dead_runs(const std::string& parent, const std::function<void(const std::string&)>& say,
                     const std::function<bool()>& must_stop);

}  // namespace nodestage
