// The plugin's line in plugstack.conf: found, and judged.
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
// nullopt if there is no such line; a fault if a file cannot be read.
Result<std::optional<PlugstackLine>> plugstack_line(const std::string& path);
Finding judge_line(const std::optional<PlugstackLine>& line, const std::string& plugstack);
std::vector<Finding> judge_arguments(const PlugstackLine& line, const PluginSettings& settings);

}  // namespace nodestage
