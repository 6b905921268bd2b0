// Sums how much of a job's sources came from their file system, and how much from its other nodes.
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/wire/node_report.hpp"

namespace nodestage {

// Returns whether the item was to be relayed, so that it is known where its bytes came from.
bool has_origin(const ReportItem& item);
bool has_origin(const std::vector<NodeReport>& run);

// The sums of one run, over every source that was relayed on any node. A node that passes nothing
// on, such as one with an earlier release, has read what it staged of them from the file system.
struct Origin {
  std::uint64_t from_storage = 0;  // bytes
  std::uint64_t from_nodes = 0;
  std::size_t nodes = 0;  // that staged any of these sources
};
Origin origin_of(const std::vector<NodeReport>& run);

// Returns a sentence without its end; "" if nothing was to be relayed.
std::string origin_text(const std::vector<NodeReport>& run);

}  // namespace nodestage
