// The nodes of the cluster, as sinfo lists them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nodestage {

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

}  // namespace nodestage
