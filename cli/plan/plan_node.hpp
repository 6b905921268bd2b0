// PlanNode: the compute node that `nodestage plan` runs on: what staging would find there now.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/wire/space_claim.hpp"

namespace nodestage {

struct PlanNode {
  std::string name;
  Amount free;                         // of the file system of the job directories
  std::uint64_t leave_free_bytes = 0;  // of these, what must stay free
  std::uint64_t least_interval_s = 0;  // a shorter `every` is raised to it; 0: not known
};

// What this process may use of the node's memory, and how much of a job's memory can be data.
struct MemoryHere {
  std::uint64_t bytes = 0;
  std::uint64_t share_percent = 75;
};
// `config`: the daemon's settings, if they can be read here.
MemoryHere memory_here(const std::string& config);

// read.max_rate of the settings, in bytes a second; 0: none, or they cannot be read here.
std::uint64_t read_rate_here(const std::string& config);

// Reads the file `about` beside the daemon's socket. Returns nothing on a machine without a daemon.
std::optional<PlanNode> this_plan_node(const std::string& socket);

// Returns why `need` does not fit on the node now, and what to do, in two lines; "" if it does.
// What others are promised is not known here.
std::string why_not_on(const PlanNode& node, const Amount& need);

}  // namespace nodestage
