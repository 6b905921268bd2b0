// nodestage held [--all-nodes | --node=NODES]
#pragma once

#include <string>

#include "cli/base/node_rows.hpp"

namespace nodestage {

struct HeldArguments {
  std::string socket;
  NodeChoice nodes;
};

// Prints the caller's held results on this node; for root, those of all users. Of chosen nodes, it
// prints a table. Exit code: 0, also if there are none; 1: no answer, of all nodes that were asked.
int show_held(const HeldArguments& arguments);

}  // namespace nodestage
