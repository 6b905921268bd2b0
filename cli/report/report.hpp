// nodestage report JOBID: what happened to a job on its nodes, and when, from the nodes' records.
#pragma once

#include <string>

namespace nodestage {

struct ReportArguments {
  std::string job;    // JOBID or JOBID.RESTART
  std::string html;   // the file for a page; "": no page
  std::string nodes;  // a Slurm list of the nodes to ask; "": the job's nodes
  bool is_json = false;
  bool is_here = false;    // this node alone
  bool is_pieces = false;  // this node alone, for another `report` (report_nodes.hpp)
  std::string socket;
};

// Exit code: 0; 1: a fault; 2: wrong usage; 3: no record of such a job of the caller.
int report(const ReportArguments& arguments);

}  // namespace nodestage
