// Verb: nodestage cache [--json] [--all-nodes | --node=NODES], nodestage cache --drop [NAME...]
#pragma once

#include <string>
#include <vector>

#include "cli/base/node_rows.hpp"

namespace nodestage {

struct CacheArguments {
  std::string socket;
  std::vector<std::string> names;  // with `drop`, see cache_names.hpp; none: all of the caller's
  bool drop = false;
  bool json = false;
  NodeChoice nodes = {};  // not with `drop`
};

// Prints what this node keeps of the caller's shared items, for root of all users', or removes it.
// Exit code: 0, also if there is nothing; 1: no answer, or what jobs use stays; 2: a name is not
// that of one entry, and nothing was removed.
int cache(const CacheArguments& arguments);

}  // namespace nodestage
