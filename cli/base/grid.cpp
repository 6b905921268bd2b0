#include "cli/base/grid.hpp"

#include <algorithm>
#include <ctime>

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

}  // namespace nodestage
