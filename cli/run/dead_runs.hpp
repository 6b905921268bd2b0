// Clears what a `nodestage run` that was killed has left, in the next one.
#pragma once

#include <functional>
#include <string>

namespace nodestage {

// Removes the directories of this user's runs below `parent` (absolute) that were killed on this
// node: the records, the job directories that they name, and those in memory. A job directory with
// results stays: `say` gets where it is, and how to copy them, once. What may belong to a run that
// lives on another node is left alone, and so is a job directory without a record. Once `must_stop`
// says yes, which it then always does, this returns soon, and a later call goes on with the rest.
void clear_dead_runs(const std::string& parent, const std::function<void(const std::string&)>& say,
                     const std::function<bool()>& must_stop);

}  // namespace nodestage
