#include "common/text/glob_text.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>

#include "common/text/human.hpp"
#include "common/text/parsing.hpp"

namespace nodestage {
namespace {

using Texts = std::vector<std::string>;

constexpr std::size_t k_none = std::string_view::npos;
constexpr std::size_t k_max_bytes = std::size_t{4} << 20U;  // of all texts of one glob
constexpr std::size_t k_max_brace_depth = 16;               // of braces in braces
constexpr std::size_t k_max_digits = 15;
constexpr std::string_view k_dots = "..";

struct Group {
  std::size_t end = k_none;         // of its '}'
  std::vector<std::size_t> commas;  // of its own, not those of braces in it
};

// What starts with the '{' at `at`, if it is closed.
Group group_at(std::string_view text, std::size_t at) {
  Group group;
  std::size_t depth = 0;
  for (std::size_t i = at; i < text.size() && depth <= k_max_brace_depth; ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '{') {
      ++depth;
    } else if (text[i] == '}' && --depth == 0) {
      group.end = i;
      return group;
    } else if (text[i] == ',' && depth == 1) {
      group.commas.push_back(i);
    }
  }
  return group;
}

Error too_many() {
  return Error{E2BIG, "its braces stand for more than " + human_count(k_max_brace_texts) +
                          " names; write '*' for what varies"};
}

bool are_letters(std::string_view first, std::string_view last) {
  const auto are_in = [&](char low, char high) {
    return first[0] >= low && first[0] <= high && last[0] >= low && last[0] <= high;
  };
  return first.size() == 1 && last.size() == 1 && (are_in('a', 'z') || are_in('A', 'Z'));
}

std::optional<std::int64_t> number_of(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  const std::string_view digits = text.substr(is_negative ? 1 : 0);
  if (digits.empty() || digits.size() > k_max_digits) return {};
  const auto value = parse_number<std::uint64_t>(digits);
  if (!value) return {};
  return is_negative ? -static_cast<std::int64_t>(*value) : static_cast<std::int64_t>(*value);
}

bool is_padded(std::string_view number) {
  const std::string_view digits = number.substr(number.starts_with('-') ? 1 : 0);
  return digits.size() > 1 && digits.starts_with('0');
}

// "000..127", "0..9..3", "a..e".
struct Sequence {
  std::int64_t first;
  std::int64_t last;
  std::int64_t step;  // positive
  std::size_t width;  // at least so many characters
  bool is_of_letters;

  [[nodiscard]] std::uint64_t count() const {
    const auto distance = static_cast<std::uint64_t>(std::max(first, last) - std::min(first, last));
    return distance / static_cast<std::uint64_t>(step) + 1;
  }
  [[nodiscard]] std::string text(std::int64_t value) const {
    if (is_of_letters) return {static_cast<char>(value)};
    std::string digits = std::to_string(value < 0 ? -value : value);
    const std::size_t sign = value < 0 ? 1 : 0;
    if (digits.size() + sign < width) digits.insert(0, width - sign - digits.size(), '0');
    return (sign == 1 ? "-" : "") + digits;
  }
};

std::optional<Sequence> sequence_of(std::string_view text) {
  const std::size_t dots = text.find(k_dots);
  if (dots == k_none) return {};
  const std::string_view first = text.substr(0, dots);
  text.remove_prefix(dots + k_dots.size());
  const std::string_view last = text.substr(0, text.find(k_dots));
  text.remove_prefix(last.size());
  const auto step =
      text.empty() ? std::optional<std::int64_t>(1) : number_of(text.substr(k_dots.size()));
  if (!step) return {};
  const std::int64_t size = *step == 0 ? 1 : *step < 0 ? -*step : *step;
  if (are_letters(first, last)) return Sequence{first[0], last[0], size, 0, true};
  const auto from = number_of(first);
  const auto to = number_of(last);
  if (!from || !to) return {};
  const bool has_width = is_padded(first) || is_padded(last);
  return Sequence{*from, *to, size, has_width ? std::max(first.size(), last.size()) : 0, false};
}

Result<Texts> texts_of(const Sequence& sequence) {
  if (sequence.count() > k_max_brace_texts) return too_many();
  Texts texts;
  const std::int64_t step = sequence.first <= sequence.last ? sequence.step : -sequence.step;
  for (std::uint64_t i = 0; i < sequence.count(); ++i)
    texts.push_back(sequence.text(sequence.first + static_cast<std::int64_t>(i) * step));
  return texts;
}

std::string without_escapes(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_escape = text[i] == '\\' && i + 1 < text.size();
    if (is_escape && std::string_view("{},").find(text[i + 1]) == k_none) plain += text[i];
    if (is_escape) ++i;
    plain += text[i];
  }
  return plain;
}

// Each of `heads`, `middle`, and each of `tails`.
Result<Texts> joined(const Texts& heads, const std::string& middle, const Texts& tails) {
  if (heads.size() * tails.size() > k_max_brace_texts) return too_many();
  Texts all;
  std::size_t bytes = 0;
  for (const std::string& head : heads) {
    for (const std::string& tail : tails) {
      all.push_back(std::string(head).append(middle).append(tail));
      bytes += all.back().size();
      if (bytes > k_max_bytes) return too_many();
    }
  }
  return all;
}

// Returns whether "$" or a backslash is before a brace.
bool is_literal(std::string_view text, std::size_t at) {
  const std::string_view before = text.substr(0, at);
  const std::size_t end = before.find_last_not_of('\\') + 1;  // npos + 1 is 0
  return before.ends_with('$') || (before.size() - end) % 2 == 1;
}

std::size_t first_braces(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (end_of_braces(text, i) != k_none) {
      return i;
    }
  }
  return k_none;
}

Result<Texts> expand(std::string_view text);

Result<Texts> expand_group(std::string_view text, std::size_t at, const Group& group) {
  if (group.commas.empty()) return texts_of(*sequence_of(text.substr(at + 1, group.end - at - 1)));
  Texts texts;
  std::size_t begin = at + 1;
  for (std::size_t i = 0; i <= group.commas.size(); ++i) {
    const std::size_t end = i < group.commas.size() ? group.commas[i] : group.end;
    TRY_ASSIGN(const Texts part, expand(text.substr(begin, end - begin)));
    if (texts.size() + part.size() > k_max_brace_texts) return too_many();
    texts.insert(texts.end(), part.begin(), part.end());
    begin = end + 1;
  }
  return texts;
}

Result<Texts> expand(std::string_view text) {
  Texts all{""};
  for (std::size_t at = first_braces(text); at != k_none; at = first_braces(text)) {
    const Group group = group_at(text, at);
    TRY_ASSIGN(const Texts tails, expand_group(text, at, group));
    TRY_ASSIGN(all, joined(all, without_escapes(text.substr(0, at)), tails));
    text.remove_prefix(group.end + 1);
  }
  return joined(all, without_escapes(text), {""});
}

}  // namespace

std::size_t end_of_braces(std::string_view text, std::size_t at) {
  if (text[at] != '{' || is_literal(text, at)) return k_none;
  const Group group = group_at(text, at);
  if (group.end == k_none) return k_none;
  const bool is_list = !group.commas.empty();
  return is_list || sequence_of(text.substr(at + 1, group.end - at - 1)) ? group.end : k_none;
}

bool has_braces(std::string_view text) { return first_braces(text) != k_none; }

Result<Texts> brace_texts(std::string_view text) {
  if (!has_braces(text)) return Texts{std::string(text)};
  return expand(text);
}

std::size_t start_of_any_depth(std::string_view path) {
  for (std::size_t at = path.find("**"); at != k_none; at = path.find("**", at + 1)) {
    const bool starts = at == 0 || path[at - 1] == '/';
    if (starts && (at + 2 == path.size() || path[at + 2] == '/')) return at;
  }
  return k_none;
}

namespace {

// One pattern: its letter and its width (0: none given).
struct Item {
  char letter;
  unsigned width;
};

constexpr unsigned k_max_width = 10;  // as in Slurm; a larger width counts as 10

Error unknown_pattern(const std::string& shown, std::string_view letters) {
  std::string known;
  for (const char letter : letters) known += std::string(" %") + letter;
  return {EINVAL, "unknown pattern " + shown + " (known:" + known + ", and %% for a percent sign)"};
}

// Calls literal(text) or item(Item) for each part of text, in order.
template <typename Literal, typename OnItem>
Status for_each_part(std::string_view text, Literal literal, OnItem on_item,
                     std::string_view letters = k_pattern_letters) {
  while (!text.empty()) {
    const std::size_t percent = text.find('%');
    literal(text.substr(0, percent));
    if (percent == std::string_view::npos) return {};
    text.remove_prefix(percent + 1);
    unsigned width = 0;
    std::size_t digits = 0;
    while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') {
      width = std::min(width * 10 + static_cast<unsigned>(text[digits] - '0'), k_max_width);
      ++digits;
    }
    const std::string shown = "%" + std::string(text.substr(0, digits + 1));
    text.remove_prefix(digits);
    if (text.empty()) return Error{EINVAL, "a '%' at the end (write %% for a percent sign)"};
    const char letter = text.front();
    text.remove_prefix(1);
    if (letter == '%') {
      literal("%");
    } else if (letters.find(letter) != std::string_view::npos) {
      TRY(on_item(Item{letter, width}));
    } else {
      return unknown_pattern(shown, letters);
    }
  }
  return {};
}

std::string padded(std::uint32_t number, unsigned width) {
  std::string digits = std::to_string(number);
  if (digits.size() < width) digits.insert(0, width - digits.size(), '0');
  return digits;
}

// A value is one name: it neither leads elsewhere nor is a directory itself.
std::string as_file_name(std::string name) {
  if (name == "." || name == "..") return std::string(name.size(), '_');
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
}

Result<std::string> value_of(Item item, const PatternFacts& facts) {
  const auto number = [&](const std::optional<std::uint32_t>& value) -> Result<std::string> {
    if (value) return padded(*value, item.width);
    return Error{ENODATA,
                 std::string("the value of %") + item.letter + " is not known on this node"};
  };
  switch (item.letter) {
    case 'j':
      return number(facts.job);
    case 'r':
      return number(facts.restart);
    case 'A':
      return number(facts.array_job);
    case 'a':
      return number(facts.array_task);
    case 'n':
      return number(facts.node_index);
    case 'u':
      return as_file_name(facts.user);
    case 'N':
      return as_file_name(facts.node);
    default:
      break;
  }
  if (facts.job_name) return as_file_name(*facts.job_name);
  return Error{ENODATA, "the value of %x (the job's name) is not known on this node"};
}

}  // namespace

Result<std::string> expand_pattern(std::string_view text, const PatternFacts& facts) {
  std::string result;
  TRY(for_each_part(
      text, [&](std::string_view literal) { result += literal; },
      [&](Item item) -> Status {
        TRY_ASSIGN(const std::string value, value_of(item, facts));
        result += value;
        return {};
      }));
  return result;
}

Status check_pattern(std::string_view text, std::string_view letters) {
  return for_each_part(
      text, [](std::string_view) {}, [](Item) { return Status(); }, letters);
}

bool names_node(std::string_view text) { return names_any(text, "Nn"); }

bool names_any(std::string_view text, std::string_view letters) {
  bool found = false;
  const Status ignored = for_each_part(
      text, [](std::string_view) {},
      [&found, letters](Item item) {
        found = found || letters.find(item.letter) != std::string_view::npos;
        return Status();
      });
  return ignored && found;
}

}  // namespace nodestage
