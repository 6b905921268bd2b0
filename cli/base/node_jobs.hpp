// Runs a command of nodestage on several nodes outside of any job there, by jobs of one short task
// on each node: one srun for up to k_most_nodes_of_group nodes that have a free CPU, and one for
// each node that has none yet or is reserved.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/base/slurm_nodes.hpp"

namespace nodestage {

struct NodeAnswers {
  std::vector<std::string> nodes;  // that were asked, or should have been, by their names in Slurm
  std::string output;              // the lines of all nodes, mixed
  bool is_cut = false;             // `output` is not all of it
  // Why a node may not have answered. Of one srun for several nodes it is not known which did.
  std::map<std::string, std::string> silent;
};

// Asks as this process's user; nullopt: all nodes that the user may use. Waits for about a minute
// until a CPU is free, and never has a node switched on. A node's output is limited as
// most_bytes_of_pieces() says.
NodeAnswers ask_by_jobs(const std::optional<std::vector<std::string>>& nodes,
                        const std::vector<std::string>& command);

// Returns "n2, n3 (no CPU was free within 60 s); n4 (down)".
std::string silence_text(const std::map<std::string, std::string>& silent);

// Returns this process's environment, without the variables of an outer job that would affect srun.
std::vector<std::string> environment_outside_of_jobs();

// How the nodes are asked. Pure but for SLURM_RESERVATION, without which a reserved node may
// refuse.
inline constexpr std::size_t k_most_nodes_of_group = 64;
struct NodeGroup {
  std::vector<std::string> nodes;
  std::string partition;  // empty: the default one
};
struct NodePlan {
  std::vector<NodeGroup> groups;  // those with free CPUs first; then single ones
  std::map<std::string, std::string> silent;
};
// `known`: empty if Slurm does not list its nodes.
NodePlan plan_node_jobs(const std::vector<std::string>& nodes, const std::vector<SlurmNode>& known);
std::vector<std::string> node_job_words(const NodeGroup& group,
                                        const std::vector<std::string>& command);

}  // namespace nodestage
