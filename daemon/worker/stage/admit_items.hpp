// Admits everything that a job waits for, as a whole and before any of it is written.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/worker/budget/allowance.hpp"
#include "daemon/worker/stage/staged_item.hpp"

namespace nodestage {

// What is asked for beside the items: `least` bytes if there is no room for `wanted`.
struct Spare {
  std::uint64_t wanted = 0;
  std::uint64_t least = 0;
};

// All items must have been weighed. While there is no room for all, removes the largest item that
// the job does not need from `items` and leaves it out. A fault if the rest does not fit. Returns
// what is admitted of `spare`, which is given up before any item.
Result<std::uint64_t> admit_items(std::vector<StagedItem*>& items, const Spare& spare,
                                  Allowance& allowance);

}  // namespace nodestage
