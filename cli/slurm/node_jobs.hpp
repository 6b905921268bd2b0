// Runs a command of nodestage on several nodes outside of any job there, by jobs of one short task
// on each node: one srun for up to k_most_nodes_of_group nodes that have a free CPU, and one for
// each node that has none yet or is reserved.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"

namespace nodestage {

// The format in which texts of several nodes pass through srun, which mixes the lines of its tasks
// and breaks lines of more than 1,024 bytes: each text is split into lines of its own.
//
//   nodestage-report NODE NUMBER INDEX COUNT TEXT     TEXT: part INDEX (from 0) of COUNT
//
// A node's answer ends with a text of its own, so that a node that has nothing is known to have
// answered.
//
// NUMBER tells the texts of one node from each other. The job's user can write such lines into
// srun's output, too. What is kept of them is bounded for each node that was asked.
// Pure. Test: tests/unit/test_report_page.cpp.

// Cuts a text without newlines into lines, each with its newline.
std::string text_to_pieces(const std::string& node, std::uint32_t number, const std::string& text);

// The end of a node's answer: a text that is neither a message nor a report.
inline constexpr std::uint32_t k_end_number = std::numeric_limits<std::uint32_t>::max();
std::string end_of_pieces(const std::string& node);

// Texts by node and number. Of a text whose pieces are not all there, the rest.
using NodeTexts = std::map<std::string, std::map<std::uint32_t, std::string>>;
// Returns those of `nodes`, at most `most_texts` of each. Ignores lines that are no pieces.
NodeTexts texts_from_pieces(std::string_view output, const std::vector<std::string>& nodes,
                            std::size_t most_texts);

// The longest output that is read: enough for large texts of so many nodes.
std::size_t most_bytes_of_pieces(std::size_t nodes);

// The nodes of the cluster, as sinfo lists them.
struct SlurmNode {
  std::string name;
  std::string host;        // the host's name, without its domain
  std::string partition;   // the first of its partitions that sinfo lists, or the default one
  std::string state;       // without marks: "idle", "mixed", "drained"
  bool is_silent = false;  // slurmd does not answer
  bool is_off = false;     // switched off, or being switched on or off, to save power
  unsigned idle_cpus = 0;
  bool is_in_default = false;  // `partition` is the default one
  std::string reason;          // why it is down or drained; empty: none
};

// Asks sinfo; empty if it cannot be asked. `partitions`: those that the caller may use, or all.
enum class Partitions { usable, all };
std::vector<SlurmNode> list_nodes(Partitions partitions);
// The same from sinfo's output in k_sinfo_format. Each node is listed once.
inline constexpr const char* k_sinfo_format = "%N|%n|%T|%C|%P|%E";
std::vector<SlurmNode> read_nodes(std::string_view output);

// Returns the node of this name or, without one, that of the host; null: none.
const SlurmNode* find_node(const std::vector<SlurmNode>& nodes, const std::string& name);
// Returns the names as Slurm has them, each once; one that is not known stays as it is.
std::vector<std::string> names_in_slurm(const std::vector<SlurmNode>& known,
                                        const std::vector<std::string>& names);

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
// Prints which nodes are silent. Fails if all are: "no node could be asked: " and the text.
Status note_silent(const NodeAnswers& answers);

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
