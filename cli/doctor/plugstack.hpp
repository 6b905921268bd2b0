// The lines of plugstack.conf, and the plugin's among them: found, and judged.
#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "cli/doctor/finding.hpp"
#include "common/result.hpp"
#include "plugin/plugin_settings.hpp"

namespace nodestage {

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

inline constexpr const char* k_plugin_name = "spank_nodestage.so";
// The file of a plugin that is written so in a line: a path, or a name in PluginDir.
std::string plugin_path(const std::string& plugin, const std::string& plugin_directory);

Finding judge_line(const std::optional<PlugstackLine>& line, const std::string& plugstack);
std::vector<Finding> judge_arguments(const PlugstackLine& line, const PluginSettings& settings);

}  // namespace nodestage
