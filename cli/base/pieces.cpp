#include "cli/base/pieces.hpp"

#include <algorithm>
#include <optional>

#include "common/text/parsing.hpp"
#include "common/wire/node_report.hpp"

namespace nodestage {
namespace {

constexpr std::string_view k_mark = "nodestage-report";
constexpr std::size_t k_piece_bytes = 600;
constexpr std::size_t k_most_pieces = k_max_report_bytes / k_piece_bytes + 1;
constexpr std::size_t k_bytes_a_node = std::size_t{128} << 10;
constexpr std::size_t k_least_bytes = std::size_t{1} << 20;  // many texts of a few nodes
constexpr std::size_t k_most_bytes = std::size_t{256} << 20;

// Removes the start of `text` up to the separator, and the separator.
std::string_view take_until(std::string_view& text, char separator) {
  const std::string_view part = text.substr(0, text.find(separator));
  text.remove_prefix(std::min(part.size() + 1, text.size()));
  return part;
}

struct Piece {
  std::string_view node;
  std::uint32_t number = 0;
  std::size_t index = 0;
  std::size_t count = 0;
  std::string_view text;
};

std::optional<Piece> piece_of(std::string_view line) {
  if (take_until(line, ' ') != k_mark) return {};
  const std::string_view node = take_until(line, ' ');
  const auto number = parse_number<std::uint32_t>(take_until(line, ' '));
  const auto index = parse_number<std::size_t>(take_until(line, ' '));
  const auto count = parse_number<std::size_t>(take_until(line, ' '));
  if (!number || !index || !count || *index >= *count || *count > k_most_pieces ||
      line.size() > k_piece_bytes)
    return {};
  return Piece{node, *number, *index, *count, line};
}

// The pieces of one text, in order; borrowed.
using Parts = std::vector<std::string_view>;
using NodeParts = std::map<std::uint32_t, Parts>;

void keep(const Piece& piece, NodeParts& texts, std::size_t most_texts) {
  if (texts.size() >= most_texts && !texts.contains(piece.number)) return;
  Parts& parts = texts[piece.number];
  parts.resize(std::max(parts.size(), piece.count));
  parts[piece.index] = piece.text;
}

}  // namespace

std::string text_to_pieces(const std::string& node, std::uint32_t number, const std::string& text) {
  const std::size_t count = (text.size() + k_piece_bytes - 1) / k_piece_bytes;
  std::string lines;
  for (std::size_t i = 0; i < count; ++i) {
    lines += std::string(k_mark) + " " + node + " " + std::to_string(number) + " " +
             std::to_string(i) + " " + std::to_string(count) + " " +
             text.substr(i * k_piece_bytes, k_piece_bytes) + "\n";
  }
  return lines;
}

std::string end_of_pieces(const std::string& node) {
  return text_to_pieces(node, k_end_number, "end");
}

NodeTexts texts_from_pieces(std::string_view output, const std::vector<std::string>& nodes,
                            std::size_t most_texts) {
  std::map<std::string_view, NodeParts> asked;
  for (const std::string& node : nodes) asked.try_emplace(node);
  while (!output.empty()) {
    const auto piece = piece_of(take_until(output, '\n'));
    if (!piece) continue;
    if (const auto found = asked.find(piece->node); found != asked.end())
      keep(*piece, found->second, most_texts);
  }
  NodeTexts texts;
  for (const auto& [node, parts_of] : asked) {
    for (const auto& [number, parts] : parts_of) {
      std::string& text = texts[std::string(node)][number];
      for (const std::string_view part : parts) text += part;
    }
  }
  return texts;
}

std::size_t most_bytes_of_pieces(std::size_t nodes) {
  return std::clamp(nodes * k_bytes_a_node, k_least_bytes, k_most_bytes);
}

}  // namespace nodestage
