// Verb: nodestage cache [--json] [--all-nodes | --node=NODES], nodestage cache --drop [NAME...]
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/base/listing.hpp"
#include "common/wire/protocol.hpp"

namespace nodestage {

// Names entries of the cache as users see and type them: by the start of an entry's key, or of
// "<uid>.<key>".
using CacheRows = std::vector<CacheRow>;

// Returns the rows whose name or key starts with `text`; none for an empty one.
std::vector<const CacheRow*> rows_named(const CacheRows& rows, const std::string& text);

// Returns the shortest name of at least eight characters that means this row alone.
std::string short_name(const CacheRows& rows, const CacheRow& row);

// Writes what `nodestage cache` prints. Pure; all texts are printable.
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

struct CacheArguments {
  std::string socket;
  std::vector<std::string> names;  // with `drop`, see cache.hpp; none: all of the caller's
  bool drop = false;
  bool json = false;
  NodeChoice nodes = {};  // not with `drop`
};

// Prints what this node keeps of the caller's shared items, for root of all users', or removes it.
// Exit code: 0, also if there is nothing; 1: no answer, or what jobs use stays; 2: a name is not
// that of one entry, and nothing was removed.
int cache(const CacheArguments& arguments);

}  // namespace nodestage
