#include "cli/doctor/plugstack.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <sstream>

#include "cli/doctor/conf_text.hpp"
#include "common/os/file.hpp"

namespace nodestage {
namespace {

constexpr unsigned k_deepest_include = 8;

std::string directory_of(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }

Status add_lines(const std::string& path, unsigned depth, std::vector<PlugstackLine>& result) {
  TRY_ASSIGN(const Fd fd, open_at(AT_FDCWD, path, O_RDONLY));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return system_error(path);
  TRY_ASSIGN(const std::string text, read_all(fd.get(), 1 << 20));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
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

}  // namespace nodestage
