#include "cli/doctor/plugstack.hpp"

#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <toml++/toml.h>

#include <algorithm>
#include <regex>

#include "common/os/file.hpp"
#include "common/text/parsing.hpp"
#include "common/text/path_names.hpp"

namespace nodestage {

std::vector<std::string> words_of(std::string_view line) {
  return words_in(line.substr(0, line.find('#')));
}

std::vector<std::string> values_in(std::string_view text, const std::string& key) {
  std::vector<std::string> values;
  for (const std::string_view line : parts_of(text, '\n')) {
    for (const std::string& word : words_of(line)) {
      const std::size_t equals = word.find('=');
      if (equals == std::string::npos || lower(word.substr(0, equals)) != lower(key)) continue;
      for (const std::string_view part : parts_of(std::string_view(word).substr(equals + 1), ','))
        if (!part.empty()) values.emplace_back(part);
    }
  }
  return values;
}

std::vector<std::string> yaml_values_in(std::string_view text, std::string_view key) {
  constexpr std::string_view k_around = " \t\r\"'";
  std::vector<std::string> values;
  for (std::string_view line : parts_of(text, '\n')) {
    line = line.substr(0, line.find('#'));
    const std::size_t colon = line.find(':');
    // An entry of a list begins with '-'.
    const std::size_t first = line.find_first_not_of("- \t");
    if (colon == std::string_view::npos || first >= colon) continue;
    if (trimmed(line.substr(first, colon - first), k_around) != key) continue;
    for (const std::string_view part : parts_of(line.substr(colon + 1), ','))
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

namespace {

constexpr unsigned k_deepest_include = 8;

std::string directory_of(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }

Status add_lines(const std::string& path, unsigned depth, std::vector<PlugstackLine>& result) {
  TRY_ASSIGN(const Fd fd, open_at(AT_FDCWD, path, O_RDONLY));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return system_error(path);
  TRY_ASSIGN(const std::string text, read_all(fd.get(), 1 << 20));
  for (const std::string_view line : parts_of(text, '\n')) {
    const std::vector<std::string> words = words_of(line);
    if (words.size() < 2) continue;
    if (words[0] == "include" && depth < k_deepest_include) {
      const std::string pattern = (words[1][0] == '/' ? "" : directory_of(path)) + words[1];
      for (const std::string& file : files_like(pattern)) TRY(add_lines(file, depth + 1, result));
    } else {
      result.push_back(
          {path, words[0] == "required", words[1], {words.begin() + 2, words.end()}, info.st_ctim});
    }
  }
  return {};
}

}  // namespace

Result<std::vector<PlugstackLine>> plugstack_lines(const std::string& path) {
  std::vector<PlugstackLine> lines;
  TRY(add_lines(path, 0, lines));
  return lines;
}

std::vector<PlugstackLine>::const_iterator own_line(const std::vector<PlugstackLine>& lines) {
  return std::find_if(lines.begin(), lines.end(), [](const PlugstackLine& line) {
    return line.plugin.substr(line.plugin.rfind('/') + 1) == k_plugin_name;
  });
}

Result<std::optional<PlugstackLine>> plugstack_line(const std::string& path) {
  TRY_ASSIGN(const auto lines, plugstack_lines(path));
  const auto own = own_line(lines);
  return own == lines.end() ? std::nullopt : std::optional(*own);
}

std::string plugin_path(const std::string& plugin, const std::string& plugin_directory) {
  return plugin.starts_with('/') ? plugin : plugin_directory + "/" + plugin;
}

Finding judge_line(const std::optional<PlugstackLine>& line, const std::string& plugstack) {
  if (!line)
    return problem(
        "no line for " + std::string(k_plugin_name) + " in " + plugstack + " or what it includes",
        "Add `include plugstack.conf.d/*.conf` to " + plugstack + ", or the line `required " +
            k_plugin_name + "`.");
  if (line->is_required) return ok("the plugin is `required` in " + line->file);
  return problem(
      "the plugin is `optional` in " + line->file + ": jobs would start without their data",
      "Write `required` there.");
}

std::vector<Finding> judge_arguments(const PlugstackLine& line, const PluginSettings& settings) {
  std::vector<Finding> findings;
  for (const std::string& complaint : settings.complaints) {
    findings.push_back(warning(complaint + " (" + line.file + ")",
                               "The default is used until this is corrected."));
  }
  return findings;
}

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
