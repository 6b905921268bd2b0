// What `nodestage wait` waits for: which datasets its names mean, and what has become of them, from
// what the worker reported. Every text is bounded and printable.
#pragma once

#include <string>
#include <vector>

#include "common/wire/status_file.hpp"

namespace nodestage {

struct Awaited {
  WorkerStatus status;               // with the meant items alone
  std::vector<std::string> unknown;  // names that mean none
};

// A name is the <NAME> of NODESTAGE_DATASET_<NAME>, in any case, with or without the prefix; or
// NODESTAGE_DATASET itself, the first dataset; or a destination, below `directory` or absolute.
// Without names: all.
Awaited choose_awaited(const WorkerStatus& status, const std::vector<std::string>& names,
                       const std::string& directory);

// Whether every item has ended.
bool all_ended(const WorkerStatus& status);

// Of each failed item, "dataset 'NAME': " and why; empty when none has failed. `fault` is what to
// say of items that were not ended; empty: they may still be. Optional items count when they were
// named.
enum class Optional { counts, is_left_out };
std::string failures(const WorkerStatus& status, Optional optional, const std::string& fault);

// "A, B", for a message.
std::string dataset_names(const WorkerStatus& status);

}  // namespace nodestage
