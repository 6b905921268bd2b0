#include "common/request/source_check.hpp"

#include <glob.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

#include "common/text/glob_text.hpp"
#include "common/text/path_names.hpp"

namespace nodestage {
namespace {

// Also true if it cannot be determined.
bool exists(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 || (errno != ENOENT && errno != ENOTDIR);
}

// What is below a "**" is not searched.
bool has_match(const std::string& pattern) {
  if (!is_glob(pattern)) return false;
  const std::string start = pattern.substr(0, start_of_any_depth(pattern));
  glob_t found{};
  const int result = ::glob(start.c_str(), GLOB_NOSORT, nullptr, &found);
  ::globfree(&found);
  return result != GLOB_NOMATCH;
}

}  // namespace

std::string missing_part(const std::string& source) {
  if (exists(source)) return {};
  const auto names = brace_texts(source);
  if (!names) return source;
  for (const std::string& name : *names)
    if (!exists(name) && !has_match(name)) return name;
  return {};
}

bool source_exists(const std::string& source) { return missing_part(source).empty(); }

bool is_empty_directory(const std::string& path) {
  std::error_code fault;
  const std::filesystem::directory_iterator first(path, fault);
  return !fault && first == std::filesystem::directory_iterator();
}

}  // namespace nodestage
