#include "daemon/worker/read/find_sources.hpp"

#include <glob.h>
#include <sys/stat.h>

#include "common/text/path_names.hpp"
#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/read/source.hpp"

namespace nodestage {
namespace {

thread_local int glob_fault = 0;  // what stopped the search; glob() itself does not report it

// As in a shell, an unreadable directory contains no match. Other faults stop the search.
int is_serious(const char*, int code) {
  glob_fault = code;
  return code != EACCES && code != ENOENT && code != ENOTDIR;
}

Result<std::vector<std::string>> glob_matches(const std::string& pattern) {
  glob_t found{};
  const int status = ::glob(pattern.c_str(), 0, is_serious, &found);
  std::vector<std::string> paths(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  if (status == 0) return paths;
  if (status == GLOB_NOMATCH) {
    return fault(ENOENT, shown(pattern) + ": no file matches", "Check it: ls -d " + shown(pattern));
  }
  return with_suffix(open_fault(pattern, status == GLOB_NOSPACE ? ENOMEM : glob_fault),
                     ": a directory on the path cannot be read");
}

}  // namespace

Result<FoundSources> find_sources(const std::string& source) {
  struct stat info {};
  if (!is_glob(source) || ::stat(source.c_str(), &info) == 0) return FoundSources{{source}, false};
  TRY_ASSIGN(std::vector<std::string> paths, glob_matches(source));
  return FoundSources{std::move(paths), true};
}

}  // namespace nodestage
