// The admission of all that a job waits for, as a whole and before any of it is written.
#pragma once

#include <vector>

#include "daemon/worker/budget/allowance.hpp"
#include "daemon/worker/stage/staged_item.hpp"

namespace nodestage {

// All of them are weighed. While there is no room for all, what the job can do without is left out,
// the largest first, and taken from `items`. A fault when the rest does not fit.
Status admit_items(std::vector<StagedItem*>& items, Allowance& allowance);

}  // namespace nodestage
