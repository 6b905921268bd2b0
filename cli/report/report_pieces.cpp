#include "cli/report/report_pieces.hpp"

#include <map>
#include <sstream>

namespace nodestage {
namespace {

constexpr const char* k_mark = "nodestage-report";
constexpr std::size_t k_piece_bytes = 600;
constexpr std::size_t k_most_pieces = k_max_report_bytes / k_piece_bytes + 1;

using Origin = std::pair<std::string, std::uint32_t>;  // node, restart

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

std::vector<NodeReport> from_pieces(const std::string& text) {
  std::map<Origin, std::vector<std::string>> parts;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string mark;
    Origin origin;
    std::size_t index = 0;
    std::size_t count = 0;
    words >> mark >> origin.first >> origin.second >> index >> count;
    if (!words || mark != k_mark || words.get() != ' ' || index >= count || count > k_most_pieces)
      continue;
    auto& all = parts[origin];
    all.resize(std::max(all.size(), count));
    std::getline(words, all[index]);
  }
  std::vector<NodeReport> reports;
  for (const auto& [origin, all] : parts) {
    std::string json;
    for (const std::string& part : all) json += part;
    if (auto report = decode_report(json)) reports.push_back(std::move(*report));
  }
  return reports;
}

}  // namespace nodestage
