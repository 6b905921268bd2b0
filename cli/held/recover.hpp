// nodestage recover JOBID DIR [--all-nodes | --node=NODES]
#pragma once

#include <string>

#include "cli/base/node_rows.hpp"

namespace nodestage {

// nodestage held [--all-nodes | --node=NODES]
struct HeldArguments {
  std::string socket;
  NodeChoice nodes;
};

// Prints the caller's held results on this node; for root, those of all users. Of chosen nodes, it
// prints a table. Exit code: 0, also if there are none; 1: no answer, of all nodes that were asked.
int show_held(const HeldArguments& arguments);

struct RecoverArguments {
  std::string socket;
  std::string job;        // "JOBID" or "JOBID.RESTART"
  std::string directory;  // absolute, or relative to the current directory
  NodeChoice nodes;       // where the results are
};

// Copies a job's held results to DIR/SOURCE; of a job of several nodes, to DIR/NODE/SOURCE. With
// nodes, becomes an srun to them, or, of all nodes, to those that hold results of the job. Exit
// code: 0: everything is in DIR and no longer held; 1: not everything, and the results stay held;
// 2: a node that was named, or every node, holds nothing of such a job of the caller.
int recover(const RecoverArguments& arguments);

}  // namespace nodestage
