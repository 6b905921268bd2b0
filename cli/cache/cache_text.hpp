// Writes what `nodestage cache` prints. Pure; all texts are printable.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "cli/cache/cache_names.hpp"

namespace nodestage {

enum class CacheOwners { hide, name };

// Returns a table of all rows, or a sentence if there are none. `now` is in seconds since 1970.
std::string cache_table(const CacheRows& rows, CacheOwners owners, std::uint64_t now);
// The same of several nodes, with a column for the node. A short name is of its own node.
using CachesByNode = std::map<std::string, CacheRows>;
std::string cache_tables(const CachesByNode& caches, CacheOwners owners, std::uint64_t now);
std::string cache_json(const CacheRows& rows);

// Returns a line about a row that the daemon was asked to remove, as it is unless jobs use it.
// `name` is its short name.
std::string drop_line(const CacheRow& row, const std::string& name);

}  // namespace nodestage
