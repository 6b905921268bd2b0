// Facts about a job, from Slurm's commands, and about this process, which can be in one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"
#include "common/wire/protocol.hpp"

namespace nodestage {

// SlurmJob: what Slurm's commands report of a job to this process's user; JobId: a run of a job, as
// users type it.

struct SlurmJob {
  std::uint32_t id = 0;  // for a task of an array: the task's own
  std::uint32_t uid = 0;
  std::string state;             // "RUNNING"
  std::string nodes;             // "n[1-3]"; empty: none yet
  std::string reason;            // why it is pending
  std::uint32_t node_count = 0;  // 0: not known
};

inline constexpr const char* k_running = "RUNNING";
inline constexpr const char* k_suspended = "SUSPENDED";

enum class JobTime { pending, running, over };
JobTime time_of(const SlurmJob& job);
// Whether it is over, and Slurm is not done with it: its epilog runs on those of its nodes that are
// in `nodes` (COMPLETING), or afterwards its burst buffers are copied out (STAGE_OUT).
bool is_completing(const SlurmJob& job);

// Returns whether it is "12"; for an array or a heterogeneous job also "12_3" or "12+1".
bool is_job_id(std::string_view text);

struct JobId {
  std::uint32_t job = 0;
  std::uint32_t restart = k_no_number;  // k_no_number: not given
};
// Parses JOBID or JOBID.RESTART.
std::optional<JobId> parse_job_id(const std::string& text);
// Writes what parse_job_id() reads.
std::string to_text(const JobId& id);

// Asks Slurm, and its accounting for a job that the controller has forgotten. Fails with ENOENT if
// neither knows such a job, with EINVAL if `wanted` matches several, with others if Slurm cannot be
// asked.
Result<SlurmJob> find_job(const std::string& wanted);
// The same from squeue's output in k_squeue_format, and from sacct's in k_sacct_format.
inline constexpr const char* k_squeue_format = "%A|%i|%K|%T|%U|%N|%r|%D";
Result<SlurmJob> read_job(const std::string& wanted, std::string_view output);
inline constexpr const char* k_sacct_format = "JobIDRaw,State,UID,NodeList,JobID,NNodes";
Result<SlurmJob> read_accounted_job(const std::string& wanted, std::string_view output);

// Returns the job of that number, which a task of an array has as well, from whichever of the two
// lists it with its nodes; and the same from the output of one.
enum class JobList { squeue, sacct };
std::optional<SlurmJob> find_placed_job(std::uint32_t number);
std::optional<SlurmJob> read_placed_job(std::uint32_t number, std::string_view output,
                                        JobList list);

// Returns n1, n2, n3 for "n[1-3]".
Result<std::vector<std::string>> expand_nodes(const std::string& nodes);

// Finds the number and the run that "12", "12.1", "10_3", or "10+1.1" names. Of the last two only
// Slurm knows the number; the faults are those of find_job(). ENOMSG: it is not a job id.
Result<JobId> find_job_id(const std::string& text);

// The output file of a batch job. The components of a heterogeneous job write to that of the first,
// whatever Slurm says of the others.
struct SlurmOutput {
  std::string path;                     // empty: not known
  std::string work_dir;                 // the same
  std::uint32_t het_job = k_no_number;  // the first component, if the job is a later one
};
SlurmOutput find_output(const std::string& wanted);  // named as for find_job()
// The same from scontrol's output, which can be about the other components, too.
SlurmOutput read_output(std::string_view output);

// Finds facts about this process: its host, its user, and the Slurm job it runs in, if any.

// Slurm's name of this node, else the host name without the domain.
std::string node_name();

// Returns the value of a variable that holds a number and nothing else.
std::optional<std::uint32_t> number_in(const char* variable);

// The number of CPUs that this process may use; at least 1.
unsigned usable_cpus();

// The name of this process's user, or the uid if it has no name.
std::string user_name();

}  // namespace nodestage
