#include "common/text/parsing.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <sstream>
#include <vector>

#include "common/text/path_names.hpp"

namespace nodestage {
namespace {

// 0 for a text that is not a unit.
std::uint64_t seconds_of(std::string_view unit) {
  if (unit.empty() || unit == "s") return 1;
  if (unit == "m") return 60;
  if (unit == "h") return 3600;
  return unit == "d" ? 86'400 : 0;
}

constexpr std::size_t k_longest_word = 32;  // no key or value is longer; paths are not compared
constexpr std::size_t k_shortest_beginning = 3;

// Returns the number of letters to insert, remove, replace, or swap with a neighbor.
std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<std::size_t>> steps(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) steps[i][0] = i;
  for (std::size_t k = 0; k <= b.size(); ++k) steps[0][k] = k;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t k = 1; k <= b.size(); ++k) {
      const std::size_t replaced = steps[i - 1][k - 1] + (a[i - 1] == b[k - 1] ? 0 : 1);
      steps[i][k] = std::min({replaced, steps[i - 1][k] + 1, steps[i][k - 1] + 1});
      if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
        steps[i][k] = std::min(steps[i][k], steps[i - 2][k - 2] + 1);
    }
  }
  return steps[a.size()][b.size()];
}

}  // namespace

std::vector<std::string_view> parts_of(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::vector<std::string> words_in(std::string_view text) {
  std::istringstream stream{std::string(text)};
  return {std::istream_iterator<std::string>(stream), {}};
}

std::optional<std::uint64_t> parse_duration(std::string_view text) {
  const auto count = take_number<std::uint64_t>(text);
  const std::uint64_t unit = seconds_of(text);
  if (!count || unit == 0 || *count > std::numeric_limits<std::uint64_t>::max() / unit) return {};
  return *count * unit;
}

std::optional<std::size_t> nearest_word(std::string_view word,
                                        const std::vector<std::string_view>& known) {
  const std::string given(word);
  std::optional<std::size_t> nearest;
  std::size_t least = given.size() + 1;
  for (std::size_t i = 0; i < known.size(); ++i) {
    const std::string_view candidate = known[i];
    const bool begins = given.size() >= k_shortest_beginning && candidate.starts_with(given);
    const std::size_t steps =
        begins && candidate != given ? 1 : distance(given, std::string(candidate));
    const std::size_t near = std::max<std::size_t>(1, std::min(given.size(), candidate.size()) / 3);
    if (steps > near || steps >= least) continue;
    least = steps;
    nearest = i;
  }
  return nearest;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& known) {
  if (word.empty() || word.size() > k_longest_word) return {};
  const auto nearest = nearest_word(lower(word), known);
  return nearest ? " (did you mean '" + std::string(known[*nearest]) + "'?)" : "";
}

}  // namespace nodestage
