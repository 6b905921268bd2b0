#include "common/request/source_check.hpp"

#include <glob.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

#include "common/text/path_names.hpp"

namespace nodestage {

bool source_exists(const std::string& source) {
  struct stat status {};
  if (::stat(source.c_str(), &status) == 0) return true;
  if (errno != ENOENT && errno != ENOTDIR) return true;
  if (!is_glob(source)) return false;
  glob_t found{};
  const int result = ::glob(source.c_str(), GLOB_NOSORT, nullptr, &found);
  ::globfree(&found);
  return result != GLOB_NOMATCH;
}

bool is_empty_directory(const std::string& path) {
  std::error_code fault;
  const std::filesystem::directory_iterator first(path, fault);
  return !fault && first == std::filesystem::directory_iterator();
}

}  // namespace nodestage
