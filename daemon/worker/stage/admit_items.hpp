// Admits everything that a job waits for, as a whole and before any of it is written.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/worker/budget/allowance.hpp"
#include "daemon/worker/stage/staged_item.hpp"

namespace nodestage {

// All items must have been weighed. While there is no room for all, removes the largest item that
// the job does not need from `items` and leaves it out. A fault if the rest does not fit.
// `spare`: what is asked for beside them, given up before any item; 0 then.
Status admit_items(std::vector<StagedItem*>& items, std::uint64_t& spare, Allowance& allowance);

}  // namespace nodestage
