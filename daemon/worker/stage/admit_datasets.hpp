// Admits everything that a job waits for, as a whole and before any of it is written.
#pragma once

#include <vector>

#include "daemon/worker/budget/allowance.hpp"
#include "daemon/worker/stage/dataset.hpp"

namespace nodestage {

// All datasets must have been weighed. While there is no room for all, removes the largest dataset
// that the job does not need from `datasets` and leaves it out. A fault if the rest does not fit.
Status admit_datasets(std::vector<Dataset*>& datasets, Allowance& allowance);

}  // namespace nodestage
