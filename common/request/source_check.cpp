#include "common/request/source_check.hpp"

#include <glob.h>
#include <sys/stat.h>

#include <cerrno>

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

}  // namespace nodestage
