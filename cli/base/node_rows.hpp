// The rows of a listing (`held`, `cache`) of several nodes, gathered as `nodestage report` gathers
// records: the command runs on each node and prints its rows in pieces.
#pragma once

#include <string>
#include <vector>

#include "cli/base/node_jobs.hpp"
#include "common/wire/protocol.hpp"

namespace nodestage {

// Which nodes a listing is about; without any choice, this one.
struct NodeChoice {
  bool is_all = false;     // all that the user may use
  std::string nodes;       // as Slurm writes them: "n[1-3]"
  bool is_pieces = false;  // this node's rows, for the command that asks

  [[nodiscard]] bool is_elsewhere() const { return is_all || !nodes.empty(); }
};

struct RowsOfNode {
  std::string node;
  std::vector<Message> rows;  // what the node's own command has read from its daemon
};
struct GatheredRows {
  std::vector<RowsOfNode> nodes;  // those that answered, by name
  int code = 0;                   // k_fault: no node answered, which was said on stderr
};

// Prints the rows as pieces, and the end of the answer.
void print_pieces(const std::vector<Message>& rows);

// Has `command` run on the chosen nodes, and reads the pieces that it prints there. Says on stderr
// which nodes did not answer.
GatheredRows gather_rows(const NodeChoice& choice, std::vector<std::string> command,
                         const std::string& socket);

// The same of an output: the nodes with any text in it. A row that cannot be read is left out.
// Pure.
std::vector<RowsOfNode> rows_in(const std::string& output, const std::vector<std::string>& nodes);

// Prints that this host has no daemon, and how a node is asked; returns k_fault.
int no_daemon_here(const std::string& what, const std::string& to_type);

}  // namespace nodestage
