// nodestage plan [options]
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/base/request_texts.hpp"
#include "cli/plan/plan_item.hpp"
#include "common/wire/space_claim.hpp"

namespace nodestage {

// PlanNode: the compute node that `nodestage plan` runs on: what staging would find there now.
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

// Finds out whether this node keeps a request's shared items already. Runs as their user.

// Sets `kept` and what belongs to it in the shared ones of `items`, which are those of `request`
// (as encode_request() gives it) in its order. `socket` is that of this machine's daemon, and
// `config` the path of its configuration, on which keys depend. What cannot be read has its
// default: at worst, a hit looks like a miss. Changes nothing if the daemon does not answer.
void find_kept(const std::string& request, const std::string& socket, const std::string& config,
               std::vector<PlanItem>& items);

// Returns a sentence without its subject, which is a shared item.
std::string kept_text(const PlanItem& item);

enum class PlanFormat { text, json };

struct PlanArguments {
  RequestTexts texts;
  std::string socket;  // of this machine's daemon, for shared items
  PlanFormat format = PlanFormat::text;
};

// Examines each source for about a second, changes nothing, and prints a forecast of its staging.
// Exit code: 0; 1: an item could not be staged in its present state, or the caller is root;
// k_wrong_usage.
int plan(const PlanArguments& arguments);

}  // namespace nodestage
