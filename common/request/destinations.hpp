// Finds the destinations of a request's items by their names alone, and checks for collisions.
#pragma once

#include <string>
#include <string_view>

#include "common/request/request.hpp"
#include "common/result.hpp"

namespace nodestage {

// Returns the name that a source has by default in the job directory, by its own name and the key
// extract=: "data" for "data.tar.gz", and with extract=yes "data.csv" for "data.csv.gz". With
// mount, it is "data" for "data.sqsh".
std::string default_name(std::string_view source, const DatasetItem& item);

// Returns the item's destination, or the default one, below the job directory.
std::string destination_of(const DatasetItem& item);

// Adds the item to a request. If an item of the same destination is there and both have the key
// merge, its sources become further ones of that item; a fault if another key differs.
Status add_or_merge(StageRequest& request, DatasetItem item);

// Refuses what can never be shared, mounted, or delivered: a shared glob without a destination,
// more images than a job can mount, and an output at or below the destination of an item that is
// shared or mounted, which is read-only, or of one in memory, which is not kept.
Status check_shared(const StageRequest& request);

// Refuses also a request in which two items (the virtual environment is one) have the same
// destination or the same variable name, or one destination is inside another. The fault names both
// items and says what to do.
Status check_together(const StageRequest& request);

}  // namespace nodestage
