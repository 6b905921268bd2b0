// The lines of plugstack.conf, and the plugin's among them: found, and judged.
#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/result.hpp"
#include "common/settings/plugin_settings.hpp"

namespace nodestage {

// Finding: what one check of `nodestage doctor` found, and what to do about it.
enum class Grade { ok, warning, problem };

struct Finding {
  Grade grade = Grade::ok;
  std::string what;
  std::string to_do;  // "" for `ok`
};

inline Finding ok(std::string what) { return {Grade::ok, std::move(what), ""}; }
inline Finding warning(std::string what, std::string to_do) {
  return {Grade::warning, std::move(what), std::move(to_do)};
}
inline Finding problem(std::string what, std::string to_do) {
  return {Grade::problem, std::move(what), std::move(to_do)};
}

// Parses the text of configuration files: words, and values by key.
// Returns the words of a line, without a comment that starts with '#'.
std::vector<std::string> words_of(std::string_view line);

// Returns each value of KEY=VALUE[,VALUE]... in any line. Keys are compared without regard to case.
std::vector<std::string> values_in(std::string_view text, const std::string& key);

// Does the same of `KEY: VALUE[, VALUE]...` in a file of YAML, with or without quotation marks.
std::vector<std::string> yaml_values_in(std::string_view text, std::string_view key);

// Returns the files that a pattern of the shell matches, sorted; none if it matches none.
std::vector<std::string> files_like(const std::string& pattern);

struct PlugstackLine {
  std::string file;
  bool is_required = false;
  std::string plugin;  // as written: a name in PluginDir or a path
  std::vector<std::string> arguments;
  timespec changed{};  // of the file
};
// Returns all lines, those of included files in their places. Fails if a file cannot be read.
Result<std::vector<PlugstackLine>> plugstack_lines(const std::string& path);
// Returns the first of the plugin's; lines.end() if there is none.
std::vector<PlugstackLine>::const_iterator own_line(const std::vector<PlugstackLine>& lines);
// Does the same of a file's lines; nullopt if there is none.
Result<std::optional<PlugstackLine>> plugstack_line(const std::string& path);

inline constexpr const char* k_default_plugstack = "/etc/slurm/plugstack.conf";
inline constexpr const char* k_plugin_name = "spank_nodestage.so";
// The file of a plugin that is written so in a line: a path, or a name in PluginDir.
std::string plugin_path(const std::string& plugin, const std::string& plugin_directory);

Finding judge_line(const std::optional<PlugstackLine>& line, const std::string& plugstack);
std::vector<Finding> judge_arguments(const PlugstackLine& line, const PluginSettings& settings);

// Writes the settings of a configuration file for a bug report: numbers, sizes, switches, and words
// that the manual lists. Of other texts and of lists, it says only that they are set.

// Returns lines "SECTION.KEY = VALUE", with paths as in the file; for a text that is not TOML one
// line that says so.
std::string settings_text(std::string_view toml);

// Returns the arguments of the plugin's line, in the same way.
std::string arguments_text(const PlugstackLine& line);

}  // namespace nodestage
