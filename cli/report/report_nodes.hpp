// Finds the nodes of a job, and asks them for `nodestage report`. Pure, except for find_nodes_of()
// and ask_nodes().
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/base/node_jobs.hpp"
#include "common/result.hpp"
#include "common/wire/node_report.hpp"

namespace nodestage {

// Reports as cli/base/node_jobs.hpp passes them through srun: as JSON, with the restart as their
// number. Pure. Test: tests/unit/test_report_pieces.cpp.

// The most runs of one job on one node; further ones are ignored.
inline constexpr std::size_t k_most_runs_of_a_node = 64;

// Cuts a report of encode_report() into lines, each with its newline.
std::string to_pieces(const NodeReport& report, const std::string& json);

// Returns the complete reports of `nodes`. Ignores lines that are no reports.
std::vector<NodeReport> from_pieces(std::string_view text, const std::vector<std::string>& nodes);

struct JobNodes {
  std::string list;         // as Slurm writes it: "n[1-3],m1"
  std::uint32_t count = 0;  // 0: not known
  bool is_running = false;
  std::optional<std::uint32_t> uid = {};  // the owner of a running job
};

// Parses the job's line of "JOBID|STATE|COUNT|LIST[|UID]"; nullopt if the job has no nodes.
std::optional<JobNodes> parse_job_nodes(const std::string& lines, std::uint32_t job);

// Returns a command that prints what this node's daemon knows, and the srun that makes a step of a
// running job of it, with one task per node.
std::vector<std::string> report_words(const std::string& job, const std::string& socket);
std::vector<std::string> step_words(const JobNodes& nodes, const std::string& job,
                                    const std::string& socket);

// Asks squeue or, once Slurm has forgotten the job, sacct (if there is accounting).
std::optional<JobNodes> find_nodes_of(std::uint32_t job);

// Asks with srun, by a step of a running job, or else as ask_by_jobs() does; waits for a few
// minutes at most. Says on stderr which nodes did not answer, and fails if none did. Root asks a
// running job's nodes as the job's user.
Result<std::vector<NodeReport>> ask_nodes(const JobNodes& nodes, const std::string& job,
                                          const std::string& socket);

}  // namespace nodestage
