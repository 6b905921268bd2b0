// The parts of `nodestage status`: what is known of a job on its nodes, the text of that, and how
// the nodes are asked.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/process/programs.hpp"
#include "cli/slurm/slurm_job.hpp"
#include "common/result.hpp"
#include "common/wire/protocol.hpp"

namespace nodestage {

// StatusReport: what `nodestage status` found out about one or more nodes, and its JSON form, which
// the command also uses between nodes. docs/nodestage.1 describes it.
struct NodeFault {
  std::string node;
  std::string what;  // why its state is not known; printable
};

// What is known of a job that has ended, without its nodes.
struct JobEnd {
  bool is_completing = false;      // Slurm is not done with it
  std::string nodes;               // where, as Slurm writes it
  std::string output;              // the path of its output file; empty: not known, or it has none
  bool is_read = false;            // the output file could be read on this host
  std::vector<std::string> lines;  // what nodestage wrote there, the last ones; printable
  std::string notice;  // of results that did not arrive, if the lines say nothing of results
};

struct StatusReport {
  std::vector<JobStatus> jobs;  // one for each job and node
  std::vector<NodeFault> faults;
  std::string slurm_state;    // of the requested job; empty: Slurm was not asked
  std::string reason;         // why the job is pending
  std::optional<JobEnd> end;  // of the requested job, if it has ended
};

// Returns bytes per second: read from the source while the item is staged, written once it is done;
// 0: not known.
std::uint64_t rate_of(const StatusItem& item);
// Estimates the time left; nullopt if there is no basis for that.
std::optional<std::uint64_t> seconds_left(const StatusItem& item);

// Returns whether anything in it can still change by itself before the job ends.
bool is_moving(const StatusReport& report);

enum class JsonForm { indented, one_line };
std::string to_json(const StatusReport& report, JsonForm form);

// Reads the jobs in such a JSON object. A process of the job's user may have written it: its
// length, the number of jobs and items, and all numbers are bounded; texts become short and
// printable. Never throws.
Result<std::vector<JobStatus>> jobs_of_json(std::string_view text);
inline constexpr std::size_t k_max_status_bytes = std::size_t{1} << 20;

// Runs as this process's user or, for root, as the job's user. An srun is killed after
// k_program_limit, and its node is then among the faults. Jobs and faults are empty if no node
// knows the job. Fails if Slurm or the user's account cannot be asked.
Result<StatusReport> ask_nodes(const SlurmJob& job, const std::string& socket);

// Returns the environment of a step that only observes a job. It contains nothing of this process's
// environment, since the step's processes belong to the job's user, who can read it, and since
// another job's SLURM_ variables would affect srun.
std::vector<std::string> step_environment();

// step_on() returns the srun for one node; the other reads its output. The job's user controls that
// output, so only what it says about this job is used.
Program step_on(const std::string& node, const SlurmJob& job, const std::string& socket);
void add_answer(StatusReport& report, const std::string& node, const SlurmJob& job,
                const ProgramEnd& end);

// What is known of a job that has ended, where no daemon can be asked: its state in Slurm, and what
// nodestage wrote into the job's output.

// Asks Slurm for the job's output, and reads it: only a regular file of the job's user. `wanted` is
// the job as the user named it.
JobEnd end_of_job(const SlurmJob& job, const std::string& wanted);

// Returns the end of a file, which must be a regular one of `owner`.
Result<std::string> read_output_end(const std::string& path, std::uint32_t owner);

// Returns the last lines of nodestage in the end of an output, without "nodestage: ", printable.
// How to fetch what a node keeps is left out if the node says later what became of that, and a line
// of progress if the node says a later one. With `of_nodes`, only what these say.
std::vector<std::string> lines_of_nodestage(std::string_view output,
                                            const std::vector<std::string>& of_nodes = {});

// Returns whether the job, its staging or the delivery of its results has failed, as far as is
// known. Pure.
bool has_failed(const StatusReport& report);

// Returns the text that shows it, with newlines. Pure.
std::string end_text(const JobEnd& end, const std::string& job, const std::string& state);

enum class Owners { hide, name };
inline constexpr std::size_t k_any_width = static_cast<std::size_t>(-1);

// Returns a table for each job, with a line for each node and item, and notes below it. Ends with a
// newline. Contains no control characters but newlines and, with has_colour, colors. `job` is the
// requested one; "": all. Where a table is wider than `width` columns, it has fewer of its columns
// and shorter names of items: RATE and LEFT go last.
std::string status_text(const StatusReport& report, const std::string& job, Owners owners,
                        bool has_colour = false, std::size_t width = k_any_width);

}  // namespace nodestage
