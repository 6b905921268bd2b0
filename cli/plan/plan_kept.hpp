// Finds out whether this node keeps a request's shared items already. Runs as their user.
#pragma once

#include <string>
#include <vector>

#include "cli/plan/plan_item.hpp"

namespace nodestage {

// Sets `kept` and what belongs to it in the shared ones of `items`, which are those of `request`
// (as encode_request() gives it) in its order. `socket` is that of this machine's daemon, and
// `config` the path of its configuration, on which keys depend. What cannot be read has its
// default: at worst, a hit looks like a miss. Changes nothing if the daemon does not answer.
void find_kept(const std::string& request, const std::string& socket, const std::string& config,
               std::vector<PlanItem>& items);

// Returns a sentence without its subject, which is a shared item.
std::string kept_text(const PlanItem& item);

}  // namespace nodestage
