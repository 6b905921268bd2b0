#include "cli/doctor/plugstack.hpp"

#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>

#include <sstream>

#include "cli/doctor/conf_text.hpp"
#include "common/os/file.hpp"

namespace nodestage {
namespace {

constexpr const char* k_plugin_name = "spank_nodestage.so";
constexpr unsigned k_deepest_include = 8;

std::string directory_of(const std::string& path) { return path.substr(0, path.rfind('/') + 1); }

std::vector<std::string> files_like(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> files;
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0)
    files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  return files;
}

Result<std::optional<PlugstackLine>> find_line(const std::string& path, unsigned depth) {
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
      for (const std::string& file : files_like(pattern)) {
        TRY_ASSIGN(auto found, find_line(file, depth + 1));
        if (found) return found;
      }
    } else if (words[1].substr(words[1].rfind('/') + 1) == k_plugin_name) {
      return std::optional<PlugstackLine>(
          {path, words[0] == "required", words[1], {words.begin() + 2, words.end()}, info.st_ctim});
    }
  }
  return std::optional<PlugstackLine>{};
}

}  // namespace

Result<std::optional<PlugstackLine>> plugstack_line(const std::string& path) {
  return find_line(path, 0);
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
