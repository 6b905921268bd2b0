// nodestage report JOBID: when what happened to a job on its nodes, from what they have kept.
#pragma once

#include <string>

namespace nodestage {

struct ReportArguments {
  std::string job;    // JOBID or JOBID.RESTART
  std::string html;   // a page is written there, too; "": none
  std::string nodes;  // Slurm's list of the nodes to ask; "": those of the job
  bool is_json = false;
  bool is_here = false;    // this node alone
  bool is_pieces = false;  // this node alone, for another `report` (report_pieces.hpp)
  std::string socket;
};

// The exit code: 0, 1 (a fault), 2 (wrong usage), 3 (no record of a job of the caller's).
int report(const ReportArguments& arguments);

}  // namespace nodestage
