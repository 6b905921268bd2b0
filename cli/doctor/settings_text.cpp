#include "cli/doctor/settings_text.hpp"

#include <toml++/toml.h>

#include <algorithm>
#include <regex>

namespace nodestage {
namespace {

// Returns whether it is a value that the manual lists.
bool is_known_word(const std::string& text) {
  static constexpr const char* k_words[] = {
      "auto",  "off",     "fail",      "skip",     "keep",  "on-request", "always",      "never",
      "pip",   "uv",      "any",       "required", "info",  "continue",   "wheels-only", "",
      "debug", "warning", "available", "refuse",   "error", "deliver"};
  return std::find(std::begin(k_words), std::end(k_words), text) != std::end(k_words);
}

bool is_amount(const std::string& text) {
  static const std::regex k_amount(R"([0-9]{1,20}(\.[0-9]{1,6})? ?([KMGTP]?i?B|s|min|h|d)?)");
  return std::regex_match(text, k_amount);
}

bool is_key(std::string_view key) {
  return std::all_of(key.begin(), key.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; });
}

std::string shown(const std::string& text) {
  if (text.starts_with('/')) return text;
  return is_known_word(text) || is_amount(text) ? "\"" + text + "\"" : "(a text)";
}

std::string value_text(const toml::node& node) {
  if (const auto* text = node.as_string()) return shown(text->get());
  if (const auto* list = node.as_array()) return "(a list of " + std::to_string(list->size()) + ")";
  if (const auto* table = node.as_table())
    return "(a table of " + std::to_string(table->size()) + ")";
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  return "(set)";
}

void add_section(std::string& text, std::string_view name, const toml::table& section) {
  for (const auto& [key, value] : section) {
    text += std::string(name) + "." + (is_key(key.str()) ? std::string(key.str()) : "(a key)") +
            " = " + value_text(value) + "\n";
  }
}

}  // namespace

std::string settings_text(std::string_view toml) {
  std::string text;
  try {
    for (const auto& [name, node] : toml::parse(toml)) {
      const auto* section = node.as_table();
      if (section != nullptr && is_key(name.str())) add_section(text, name.str(), *section);
      if (section == nullptr || !is_key(name.str())) text += "(a key outside of a section)\n";
    }
  } catch (const toml::parse_error&) {  // thrown by the library
    return "(not TOML)\n";
  }
  return text.empty() ? "(all defaults)\n" : text;
}

std::string arguments_text(const PlugstackLine& line) {
  std::string text;
  for (const std::string& argument : line.arguments) {
    const std::size_t equals = argument.find('=');
    const std::string key = argument.substr(0, equals);
    if (equals == std::string::npos || !is_key(key)) {
      text += " (an argument)";
    } else {
      text += " " + key + "=" + shown(argument.substr(equals + 1));
    }
  }
  return text;
}

}  // namespace nodestage
