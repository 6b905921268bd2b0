// Sources of --stage-out that do not exist at the end of the job: a name was misspelled, or a
// program did not write its results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/request/request.hpp"
#include "common/wire/worker_order.hpp"
#include "daemon/worker/out/deliver_output.hpp"
#include "daemon/worker/out/staged_data.hpp"

namespace nodestage {

// Finds what a job has left in its directory that --stage-out does not name. It would be lost with
// the directory, although a name in the option may be misspelled.

// The paths, sorted, of what is neither the source of an output nor staged and unchanged; looks
// into directories above such sources. What cannot be examined counts, too. Empty directories,
// sockets and the like, and links that lead nowhere, to such sources, or out of the directory, hold
// nothing that could be lost.
std::vector<std::string> left_results(const StageRequest& request, const StagedData& staged,
                                      const JobTree& job);

// Returns `left` and what lies directly in them, some thousands at most, to compare names with.
std::vector<std::string> candidates(const std::vector<std::string>& left, const JobTree& job);

// Returns the candidate whose name is so near to that of `source` (of --stage-out) that it was
// probably meant; "" if there is none. Names of one series ("rank0.log" and "rank1.log", or with
// the name of the node) are not near.
std::string probably_meant(const std::string& source, const std::vector<std::string>& among,
                           const std::string& node);

// Returns whether all of them are files with names like those of logs.
bool are_logs(const std::vector<std::string>& left, const JobTree& job);

struct MissingOutputs {
  std::vector<bool> is_missing;    // for each item: wanted, not `optional`, and missing
  bool are_all = false;            // every wanted item is missing
  std::vector<std::string> names;  // what the job made at the top level of its directory, sorted
  std::vector<std::string> left;   // left_results()
  std::vector<std::string> meant;  // for each missing item: probably_meant(), or ""
  // OutputSource::absent of each item that is wanted and not `optional`; `meant` is for them, too.
  std::vector<std::vector<std::string>> absent;
  std::vector<std::string> notes;  // for each missing item: nothing_note()
  bool is_emptied = false;         // the job probably removed all of its directory

  [[nodiscard]] bool is_any() const;
};

// Fills `names`, `left` and `meant` if something is missing.
MissingOutputs find_missing(const StageRequest& request, const DeliveryOrder& order,
                            const JobResults& job);

// Returns whether what is left is kept, so that a misspelled name does not cost a job its results.
// A job of one node could not have meant to lose any of it. Of several nodes, often one alone
// writes the results, and the others only a log of their own.
bool keeps_left(const MissingOutputs& missing, const DeliveryOrder& order, const JobResults& job);

// The note on item `i`: "reslts: nothing of that name in the job's directory, which holds results,
// log.txt (did you mean 'results'?)", or what is known of who has removed it. `deliveries`: how
// many have brought something of it while the job ran.
std::string missing_note(const MissingOutputs& missing, std::size_t i, std::uint64_t deliveries);

// The note on what the source "*", or one that ends in "/*", has left behind: names that begin with
// a dot. "" if that is nothing.
std::string hidden_note(const std::string& source, const StageRequest& request,
                        const JobResults& job);

// "nothing in the job's directory is named or matches 'a', 'b' and 2 more (did you mean 'c'?)"
std::string absent_note(const std::vector<std::string>& absent, const std::string& meant);

}  // namespace nodestage
