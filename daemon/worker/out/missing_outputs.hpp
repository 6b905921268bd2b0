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

struct MissingOutputs {
  std::vector<bool> is_missing;    // for each item: wanted, not `optional`, and missing
  bool are_all = false;            // every wanted item is missing
  std::vector<std::string> names;  // what the job made at the top level of its directory, sorted
  // What --stage-out does not name, and would be lost with the directory, although a name in the
  // option may be misspelled. Sorted paths.
  std::vector<std::string> left;
  std::vector<std::string> meant;  // for each missing item: a name near to its own, or ""
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
