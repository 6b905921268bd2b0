#include "cli/report/report_pieces.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>

#include "common/text/parsing.hpp"

namespace nodestage {
namespace {

constexpr std::string_view k_mark = "nodestage-report";
constexpr std::size_t k_piece_bytes = 600;
constexpr std::size_t k_most_pieces = k_max_report_bytes / k_piece_bytes + 1;
constexpr std::size_t k_bytes_a_node = std::size_t{128} << 10;
constexpr std::size_t k_least_bytes = std::size_t{1} << 20;  // many runs of a few nodes
constexpr std::size_t k_most_bytes = std::size_t{256} << 20;

// Removes the start of `text` up to the separator, and the separator.
std::string_view take_until(std::string_view& text, char separator) {
  const std::string_view part = text.substr(0, text.find(separator));
  text.remove_prefix(std::min(part.size() + 1, text.size()));
  return part;
}

struct Piece {
  std::string_view node;
  std::uint32_t restart = 0;
  std::size_t index = 0;
  std::size_t count = 0;
  std::string_view text;
};

std::optional<Piece> piece_of(std::string_view line) {
  if (take_until(line, ' ') != k_mark) return {};
  const std::string_view node = take_until(line, ' ');
  const auto restart = parse_number<std::uint32_t>(take_until(line, ' '));
  const auto index = parse_number<std::size_t>(take_until(line, ' '));
  const auto count = parse_number<std::size_t>(take_until(line, ' '));
  if (!restart || !index || !count || *index >= *count || *count > k_most_pieces ||
      line.size() > k_piece_bytes)
    return {};
  return Piece{node, *restart, *index, *count, line};
}

// The pieces of one report, in order; borrowed.
using Parts = std::vector<std::string_view>;
using Runs = std::map<std::uint32_t, Parts>;  // by restart

void keep(const Piece& piece, Runs& runs) {
  if (runs.size() >= k_most_runs_of_a_node && !runs.contains(piece.restart)) return;
  Parts& parts = runs[piece.restart];
  parts.resize(std::max(parts.size(), piece.count));
  parts[piece.index] = piece.text;
}

std::optional<NodeReport> report_of(const Parts& parts) {
  std::string json;
  for (const std::string_view part : parts) json += part;
  auto report = decode_report(json);
  return report ? std::optional(std::move(*report)) : std::nullopt;
}

}  // namespace

std::string to_pieces(const NodeReport& report, const std::string& json) {
  const std::size_t count = (json.size() + k_piece_bytes - 1) / k_piece_bytes;
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    text += std::string(k_mark) + " " + report.node + " " + std::to_string(report.restart) + " " +
            std::to_string(i) + " " + std::to_string(count) + " " +
            json.substr(i * k_piece_bytes, k_piece_bytes) + "\n";
  }
  return text;
}

std::vector<NodeReport> from_pieces(std::string_view text, const std::vector<std::string>& nodes) {
  std::map<std::string_view, Runs> asked;
  for (const std::string& node : nodes) asked.try_emplace(node);
  while (!text.empty()) {
    const auto piece = piece_of(take_until(text, '\n'));
    if (!piece) continue;
    if (const auto found = asked.find(piece->node); found != asked.end())
      keep(*piece, found->second);
  }
  std::vector<NodeReport> reports;
  for (const auto& [node, runs] : asked) {
    for (const auto& [restart, parts] : runs) {
      auto report = report_of(parts);
      if (report && report->node == node && report->restart == restart)
        reports.push_back(std::move(*report));
    }
  }
  return reports;
}

std::size_t most_bytes_of_pieces(std::size_t nodes) {
  return std::clamp(nodes * k_bytes_a_node, k_least_bytes, k_most_bytes);
}

}  // namespace nodestage
