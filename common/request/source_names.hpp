// The % patterns in the sources of datasets: those of targets (common/text/glob_text.hpp) but %x,
// for another source for each task of an array, or for each node of a job.
//
// What exists as it is written has no patterns, whatever its name is, neither a source nor the
// directories that it begins with; and neither has what is no text of patterns.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/request/request.hpp"
#include "common/result.hpp"
#include "common/text/glob_text.hpp"

namespace nodestage {

// Whether the source has a pattern. Looks at the file system if it has a percent sign.
bool has_patterns(const std::string& source);

// The same for %a and %A alone, which only an array's tasks have.
bool has_index(const std::string& source);
// The first of an item's sources that has it; "" if none has.
std::string source_with_index(const DatasetItem& item);

// Replaces each source that has patterns by the one that is meant. A fault names the source whose
// pattern has no value here (ENODATA), or items that cannot be together then. An optional item
// without a value keeps its text, of which nothing exists.
Status expand_sources(StageRequest& request, const PatternFacts& facts);

// Whether sources may need what Slurm says only to a step of the job: an array's IDs.
bool needs_step_names(const StageRequest& request);

// "" for a source that no percent sign makes doubtful. Otherwise what its user should know at
// submission: what exists as it is written although it could be a pattern.
std::string about_percent_sign(const std::string& source);

// The fault of a source with a percent sign that is no pattern, if nothing has that name either.
Status check_source_pattern(const std::string& source);

// The fault of a source with the index of a task, for a job that is no array.
Error no_array(const std::string& source);

inline constexpr std::size_t k_max_tasks = 4'000'001;  // the largest MaxArraySize

// The indices of sbatch's --array=, such as "0-15:5%4" or "1,3,7-9", in their order and each once.
Result<std::vector<std::uint32_t>> indices_of_array(std::string_view text);

// The names that a source with patterns has before the job starts, for each task of the array, and
// for the first node. A fault (ENODATA) if they are not known then, as with %j.
enum class WhichTasks { all, first_and_last };
Result<std::vector<std::string>> names_before_start(const std::string& source,
                                                    const std::string& array, WhichTasks which);

}  // namespace nodestage
