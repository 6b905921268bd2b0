// StatusReport: what `nodestage status` has learned, of one node or many, and its JSON form, which
// one node's command hands to another's. docs/nodestage.1 describes it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"
#include "common/wire/protocol.hpp"

namespace nodestage {

struct NodeFault {
  std::string node;
  std::string what;  // why nothing is known of it; printable
};

struct StatusReport {
  std::vector<JobStatus> jobs;  // one for each job and node
  std::vector<NodeFault> faults;
  std::string slurm_state;  // of the job that was asked for; empty: Slurm was not asked
  std::string reason;       // why it is pending
};

// Bytes each second: of the source while the item is staged, of what was written when it is done;
// 0: not known.
std::uint64_t rate_of(const StatusItem& item);
// Nothing where it would be invented.
std::optional<std::uint64_t> seconds_left(const StatusItem& item);

const char* to_text(ItemState state);

// Whether any of it is still to change by itself before the job ends.
bool is_moving(const StatusReport& report);

enum class JsonForm { indented, one_line };
std::string to_json(const StatusReport& report, JsonForm form);

// The jobs of such an object. It may come from a process of the job's user: numbers are bounded and
// texts made printable. Never throws.
Result<std::vector<JobStatus>> jobs_of_json(std::string_view text);

}  // namespace nodestage
