#include "cli/base/listing.hpp"

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "cli/base/conversation.hpp"
#include "cli/slurm/node_jobs.hpp"
#include "cli/slurm/slurm_job.hpp"
#include "common/build_info.hpp"
#include "common/text/encodings.hpp"
#include "common/text/parsing.hpp"

namespace nodestage {

std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0U) != 0x80U;
  }));
}

void Grid::add(std::vector<std::string> row) {
  widths_.resize(std::max(widths_.size(), row.size()));
  for (std::size_t i = 0; i < row.size(); ++i) widths_[i] = std::max(widths_[i], width_of(row[i]));
  rows_.push_back(std::move(row));
}

std::string Grid::text() const {
  std::string text;
  for (const auto& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string blanks(widths_[i] - std::min(widths_[i], width_of(row[i])), ' ');
      line += (i == 0 ? "" : "  ") + (i < left_ ? row[i] + blanks : blanks + row[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

Result<std::int64_t> parse_moment(const std::string& text) {
  const Error wrong{EINVAL, "'" + text + "' is not a date or time"};
  if (text.starts_with('@')) {
    const auto seconds = parse_number<std::int64_t>(std::string_view(text).substr(1));
    if (!seconds) return wrong;
    return *seconds;
  }
  for (const char* format : {"%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%SZ"}) {
    std::tm parts{};
    const char* rest = ::strptime(text.c_str(), format, &parts);
    if (rest != nullptr && *rest == '\0') return static_cast<std::int64_t>(::timegm(&parts));
  }
  return wrong;
}

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

}  // namespace nodestage
