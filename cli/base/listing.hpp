// What lists things: a table of text, and the rows of a listing of several nodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cli/slurm/node_jobs.hpp"
#include "common/result.hpp"
#include "common/wire/protocol.hpp"

namespace nodestage {

// Grid: a table of text, whose columns are as wide as their widest cells.
class Grid {
 public:
  // The first `left` columns are aligned to the left, the others to the right.
  Grid(std::vector<std::string> head, std::size_t left) : left_(left) { add(std::move(head)); }
  // Adds a row, whose cells are printable.
  void add(std::vector<std::string> row);
  // Returns lines with their newlines, without blanks at their ends.
  [[nodiscard]] std::string text() const;

 private:
  std::size_t left_;
  std::vector<std::size_t> widths_;
  std::vector<std::vector<std::string>> rows_;
};

// Returns the width of printable text in characters, assuming one column for each.
std::size_t width_of(const std::string& text);

// Parses a date or time as a user types it: returns seconds since 1970 of "@SECONDS", "2026-11-21"
// or "2026-11-21T15:30:00" (UTC).
Result<std::int64_t> parse_moment(const std::string& text);

// The rows of a listing (`held`, `cache`) of several nodes, gathered as `nodestage report` gathers
// records: the command runs on each node and prints its rows in pieces.

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

  // The rows of one kind, each with its node.
  template <typename Row>
  [[nodiscard]] std::vector<std::pair<std::string, Row>> all() const {
    std::vector<std::pair<std::string, Row>> found;
    for (const RowsOfNode& of_node : nodes) {
      for (const Message& message : of_node.rows)
        if (const auto* row = std::get_if<Row>(&message)) found.emplace_back(of_node.node, *row);
    }
    return found;
  }
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

}  // namespace nodestage
