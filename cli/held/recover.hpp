// nodestage recover JOBID DIR [--node=NODE]
#pragma once

#include <string>

namespace nodestage {

struct RecoverArguments {
  std::string socket;
  std::string job;        // "JOBID" or "JOBID.RESTART"
  std::string directory;  // relative to the current one, or absolute
  std::string node;       // where the results are; empty: this one
};

// Copies what a job could not deliver to DIR/SOURCE. With a node it becomes srun there. The exit
// code: 0 all of it is in DIR and no longer held; 1 not so, and it stays held; 2 nothing of such a
// job of the caller's is held on this node.
int recover(const RecoverArguments& arguments);

}  // namespace nodestage
