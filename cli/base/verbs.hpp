// The verbs of the command: the arguments of each, what it does, and its exit code. (Verbs whose
// parts have tests of their own are declared with those: cache, pack, plan, push.)
#pragma once

#include <string>
#include <vector>

#include "cli/base/conversation.hpp"
#include "cli/base/listing.hpp"

namespace nodestage {

// nodestage wait [NAME...]
struct WaitArguments {
  std::string socket;
  std::vector<std::string> names;  // none: all datasets of the job
  bool quiet = false;
};

// Exit code: 0: the datasets are in place; 1: staging failed, or no answer; k_wrong_usage.
int wait_for_datasets(const WaitArguments& arguments);

// nodestage status [JOBID]
struct StatusArguments {
  std::string socket;
  std::string job;    // "12", "12_3", "12+1"; empty: all jobs that this node knows
  bool here = false;  // never ask Slurm
  bool json = false;
  bool watch = false;  // repeat until nothing changes any more
};

// Shows the caller's jobs (root: all jobs). Exit code: 0; 1: the named job, its staging or the
// delivery of its results has failed, or the daemon, a node or Slurm does not answer;
// k_wrong_usage; k_no_such_job: the job is not the caller's, or not known.
int show_status(const StatusArguments& arguments);

// nodestage report JOBID: what happened to a job on its nodes, and when, from the nodes' records.
struct ReportArguments {
  std::string job;    // JOBID or JOBID.RESTART
  std::string html;   // the file for a page; "": no page
  std::string nodes;  // a Slurm list of the nodes to ask; "": the job's nodes
  bool is_json = false;
  bool is_here = false;    // this node alone
  bool is_pieces = false;  // this node alone, for another `report`
  std::string socket;
};

// Exit code: 0; 1: a fault; 2: wrong usage; 3: no record of such a job of the caller.
int report(const ReportArguments& arguments);

// nodestage held [--all-nodes | --node=NODES]
struct HeldArguments {
  std::string socket;
  NodeChoice nodes;
};

// Prints the caller's held results on this node; for root, those of all users. Of chosen nodes, it
// prints a table. Exit code: 0, also if there are none; 1: no answer, of all nodes that were asked.
int show_held(const HeldArguments& arguments);

// nodestage recover JOBID DIR [--all-nodes | --node=NODES]
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

// nodestage run [options] -- COMMAND...
struct RunArguments {
  RequestTexts texts;
  std::string tmpdir;  // empty: $TMPDIR, else /tmp
  std::string worker;  // the program; empty: this installation's
  std::vector<std::string> command;
};

// Its own exit codes; others are COMMAND's, or 128 + n if signal n stopped COMMAND or the staging.
inline constexpr int k_not_delivered = 123;  // COMMAND returned 0, and a result was not delivered
inline constexpr int k_not_run = 125;        // wrong arguments, or the staging failed
inline constexpr int k_not_executable = 126;
inline constexpr int k_not_found = 127;

// Does the work of a whole job: creates a private directory, stages, runs COMMAND with the job's
// environment, stages out, and removes the directory. Refuses to run as root.
int run_job(const RunArguments& arguments);

// nodestage doctor
struct DoctorArguments {
  std::string socket;
  std::string host;    // "login" or "compute"; "": detected
  std::string report;  // a file to write the report for a bug to; "": none
};

// Examines this host and prints one line per finding: ok, warning or problem, and what to do. Does
// not need root. Exit code: 0: no problem (but perhaps warnings); 1: at least one problem.
int examine_host(const DoctorArguments& arguments);

}  // namespace nodestage

// The text of --help: an example first, then all options, at most 24 lines of 80 columns.
namespace nodestage::help {

extern const char* const k_command;
extern const char* const k_run;
extern const char* const k_plan;
extern const char* const k_pack;
extern const char* const k_status;
extern const char* const k_report;
extern const char* const k_wait;
extern const char* const k_push;
extern const char* const k_held;
extern const char* const k_recover;
extern const char* const k_cache;
extern const char* const k_doctor;

}  // namespace nodestage::help
