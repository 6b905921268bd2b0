#include "cli/base/node_rows.hpp"

#include <cstdio>

#include "cli/base/conversation.hpp"
#include "cli/base/node_jobs.hpp"
#include "cli/base/slurm_job.hpp"
#include "cli/base/this_node.hpp"
#include "common/build_info.hpp"
#include "common/text/hex_digits.hpp"
#include "common/text/human.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_most_rows = 10'000;  // of one node

}  // namespace

void print_pieces(const std::vector<Message>& rows) {
  const std::string node = node_name();
  std::uint32_t number = 0;
  for (const Message& row : rows)
    std::fputs(text_to_pieces(node, number++, hex_digits(encode_message(row))).c_str(), stdout);
  std::fputs(end_of_pieces(node).c_str(), stdout);
}

std::vector<RowsOfNode> rows_in(const std::string& output, const std::vector<std::string>& nodes) {
  std::vector<RowsOfNode> all;
  for (const auto& [node, texts] : texts_from_pieces(output, nodes, k_most_rows)) {
    RowsOfNode of_node{node, {}};
    for (const auto& [number, text] : texts) {
      auto row = decode_message(bytes_of_hex(text).value_or(""));
      if (row) of_node.rows.push_back(std::move(*row));
    }
    all.push_back(std::move(of_node));
  }
  return all;
}

GatheredRows gather_rows(const NodeChoice& choice, std::vector<std::string> command,
                         const std::string& socket) {
  if (socket != k_socket_path) command.push_back("--socket=" + socket);
  std::optional<std::vector<std::string>> names;
  if (!choice.is_all) {
    auto expanded = expand_nodes(choice.nodes);
    if (!expanded) return {{}, fault(expanded.error().text(), "--node needs Slurm's commands.")};
    names = std::move(*expanded);
  }
  NodeAnswers answers = ask_by_jobs(names, command);
  if (answers.nodes.empty())
    return {{}, fault("Slurm lists no node that you can use", "sinfo --Node must list them.")};
  GatheredRows gathered{rows_in(answers.output, answers.nodes), 0};
  for (const RowsOfNode& of_node : gathered.nodes) answers.silent.erase(of_node.node);
  if (answers.is_cut)
    std::fputs("nodestage: the nodes have written too much: the list is not complete\n", stderr);
  if (const Status some = note_silent(answers); !some)
    return {{}, fault(some.error().text(), "Busy nodes can be asked later.")};
  return gathered;
}

int no_daemon_here(const std::string& what, const std::string& to_type) {
  return fault(what, "A login node has no daemon. " + to_type +
                         "\nOn a compute node, tell your administrators (systemctl status "
                         "nodestaged).");
}

}  // namespace nodestage
