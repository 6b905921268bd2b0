// What `nodestage wait` waits for: which datasets its names mean, and what has become of them, from
// what the worker reported. Every text is bounded and printable.
#pragma once

#include <string>
#include <vector>

#include "common/wire/status_file.hpp"

namespace nodestage {

struct Awaited {
  WorkerStatus status;               // only with the items that are meant
  std::vector<std::string> unknown;  // names that mean no item
};

// A name is the <NAME> of NODESTAGE_DATASET_<NAME>, in any case, with or without the prefix; or
// NODESTAGE_DATASET itself, the first dataset; or a destination, below `directory` or absolute.
// Without names: all.
Awaited choose_awaited(const WorkerStatus& status, const std::vector<std::string>& names,
                       const std::string& directory);

// Whether every item has ended.
bool all_ended(const WorkerStatus& status);

// For each failed item, "dataset 'NAME': " and why; empty when none has failed. `fault`: why items
// that have not ended never will; empty: they still can. Optional items count when they were named.
enum class Optional { counts, is_left_out };
std::string failures(const WorkerStatus& status, Optional optional, const std::string& fault);

// "A, B", for a message.
std::string dataset_names(const WorkerStatus& status);

}  // namespace nodestage
