#include "common/request/venv_environment.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

namespace nodestage {
namespace {

// No variable that can hold a secret (PIP_INDEX_URL), and none that the build sets itself.
constexpr std::string_view k_for_build[] = {
    "PATH",          "LD_LIBRARY_PATH", "PYTHONPATH",     "HOME",           "XDG_CONFIG_HOME",
    "MODULEPATH",    "PIP_CONFIG_FILE", "PIP_FIND_LINKS", "PIP_CONSTRAINT", "UV_CONFIG_FILE",
    "UV_FIND_LINKS", "UV_CONSTRAINT"};

bool matches(std::string_view name, std::string_view pattern) {
  if (!pattern.ends_with('*')) return name == pattern;
  pattern.remove_suffix(1);
  return !pattern.empty() && name.starts_with(pattern);
}

bool is_program(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
         ::access(path.c_str(), X_OK) == 0;
}

// Calls use(part) for each part of a list of paths.
template <typename Use>
void each_part(std::string_view path, char separator, Use use) {
  for (;;) {
    const std::size_t end = path.find(separator);
    use(path.substr(0, end));
    if (end == std::string_view::npos) return;
    path.remove_prefix(end + 1);
  }
}

}  // namespace

std::vector<std::string> environment_for_build(const std::vector<std::string>& more) {
  std::vector<std::string> found;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view variable(*entry);
    const std::size_t equals = variable.find('=');
    if (equals == std::string_view::npos || equals + 1 == variable.size()) continue;
    const std::string_view name = variable.substr(0, equals);
    const auto names_it = [name](std::string_view pattern) { return matches(name, pattern); };
    if (std::any_of(std::begin(k_for_build), std::end(k_for_build), names_it) ||
        std::any_of(more.begin(), more.end(), names_it)) {
      found.emplace_back(variable);
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

bool is_program_name(std::string_view name) {
  const auto is_alphanumeric = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
  };
  return !name.empty() && is_alphanumeric(name[0]) &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return c > ' ' && c < 0x7f && c != '/'; });
}

std::string program_in_path(std::string_view path, std::string_view name) {
  std::string found;
  each_part(path, ':', [&](std::string_view part) {
    if (!found.empty() || !part.starts_with('/')) return;
    std::string program = std::string(part).append("/").append(name);
    if (is_program(program)) found = std::move(program);
  });
  return found;
}

std::string python_in(std::string_view path) {
  std::string found = program_in_path(path, "python3");
  return found.empty() ? program_in_path(path, "python") : found;
}

std::string path_without(std::string_view path, std::string_view directory, char separator) {
  std::string rest;
  bool first = true;
  each_part(path, separator, [&](std::string_view part) {
    if (part == directory) return;
    if (!first) rest += separator;
    rest += part;
    first = false;
  });
  return rest;
}

std::string path_with_first(std::string_view path, std::string_view directory) {
  const std::string rest = path_without(path, directory);
  return std::string(directory) + (rest.empty() ? "" : ":" + rest);
}

}  // namespace nodestage
