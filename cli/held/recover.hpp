// nodestage recover JOBID DIR [--node=NODE]
#pragma once

#include <string>

namespace nodestage {

struct RecoverArguments {
  std::string socket;
  std::string job;        // "JOBID" or "JOBID.RESTART"
  std::string directory;  // absolute, or relative to the current directory
  std::string node;       // where the results are; empty: this one
};

// Copies a job's held results to DIR/SOURCE. With a node, becomes an srun to that node. Exit code:
// 0: everything is in DIR and no longer held; 1: not everything, and the results stay held; 2: this
// node holds nothing of such a job of the caller.
int recover(const RecoverArguments& arguments);

}  // namespace nodestage
