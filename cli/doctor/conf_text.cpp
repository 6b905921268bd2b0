#include "cli/doctor/conf_text.hpp"

#include <glob.h>

#include <algorithm>
#include <cctype>
#include <sstream>

#include "common/text/parsing.hpp"

namespace nodestage {
namespace {

constexpr std::string_view k_around = " \t\r\"'";

}  // namespace

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream words(line.substr(0, line.find('#')));
  std::vector<std::string> list;
  for (std::string word; words >> word;) list.push_back(word);
  return list;
}

std::vector<std::string> values_in(std::string_view text, const std::string& key) {
  std::vector<std::string> values;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    for (const std::string& word : words_of(line)) {
      const std::size_t equals = word.find('=');
      if (equals == std::string::npos || lower(word.substr(0, equals)) != lower(key)) continue;
      std::istringstream parts(word.substr(equals + 1));
      for (std::string part; std::getline(parts, part, ',');) values.push_back(part);
    }
  }
  return values;
}

std::vector<std::string> yaml_values_in(std::string_view text, std::string_view key) {
  std::vector<std::string> values;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    line = line.substr(0, line.find('#'));
    const std::size_t colon = line.find(':');
    // An entry of a list begins with '-'.
    const std::size_t first = line.find_first_not_of("- \t");
    if (colon == std::string::npos || first >= colon) continue;
    if (trimmed(std::string_view(line).substr(first, colon - first), k_around) != key) continue;
    std::istringstream parts(line.substr(colon + 1));
    for (std::string part; std::getline(parts, part, ',');)
      if (const auto value = trimmed(part, k_around); !value.empty()) values.emplace_back(value);
  }
  return values;
}

std::vector<std::string> files_like(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> files;
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0)
    files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  return files;
}

}  // namespace nodestage
