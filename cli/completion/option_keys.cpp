// Prints the keys of the options of staging for the completion of the shells, while nodestage is
// built (conf/completion/fill.cmake). A line for each key: OPTION|KEY|VALUES|HELP. KEY ends with
// '=' if it needs a value. VALUES are words between blanks, "<file>", "<directory>", or nothing.
#include <cstdio>
#include <string>

#include "common/request/option_items.hpp"

namespace nodestage {
namespace {

std::string words_of(std::span<const Word> words) {
  std::string list;
  for (const Word& word : words) list.append(list.empty() ? "" : " ").append(word.text);
  return list;
}

template <typename Item>
std::string values_of(const OptionKey<Item>& row) {
  return std::visit(
      FormCases{[](const WordForm<Item>& form) { return words_of(form.words); },
                [](const TextForm<Item>& form) { return std::string(form.completed_as); },
                [](const auto&) { return std::string(); }},
      row.form);
}

template <typename Item>
void print_keys() {
  constexpr std::string_view k_prefix = "stage-";
  for (const auto& row : Option<Item>::keys)
    std::printf("%s|%s%s|%s|%s\n", Option<Item>::name + k_prefix.size(), row.name,
                *row.value == '\0' || !row.bare.empty() ? "" : "=", values_of(row).c_str(),
                row.help);
}

}  // namespace
}  // namespace nodestage

int main() {
  nodestage::print_keys<nodestage::DatasetItem>();
  nodestage::print_keys<nodestage::VenvItem>();
  nodestage::print_keys<nodestage::OutputItem>();
}
