#include "common/text/name_pattern.hpp"

#include <algorithm>

namespace nodestage {
namespace {

// One pattern: its letter and its width (0: none given).
struct Item {
  char letter;
  unsigned width;
};

constexpr std::string_view k_letters = "jAauxNnr";
constexpr unsigned k_max_width = 10;  // as in Slurm; a larger width counts as 10

// Calls literal(text) or item(Item) for each part of text, in order.
template <typename Literal, typename OnItem>
Status for_each_part(std::string_view text, Literal literal, OnItem on_item) {
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
    } else if (k_letters.find(letter) != std::string_view::npos) {
      TRY(on_item(Item{letter, width}));
    } else {
      return Error{EINVAL, "unknown pattern " + shown +
                               " (known: %j %A %a %u %x %N %n %r, and %% for a percent sign)"};
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

Status check_pattern(std::string_view text) {
  return for_each_part(
      text, [](std::string_view) {}, [](Item) { return Status(); });
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
