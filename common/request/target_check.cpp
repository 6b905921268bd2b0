#include "common/request/target_check.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "common/text/archive_names.hpp"
#include "common/text/path_names.hpp"

namespace nodestage {
namespace {

struct Found {
  std::string path;
  bool is_directory = false;
};

bool becomes_archive(const OutputItem& item) {
  return item.pack || (!archive_suffix(item.target).empty() && archive_suffix(item.source).empty());
}

// The path that is written, or the directory before its first pattern.
struct Known {
  std::string path;
  bool is_whole = true;
};

Known known_path(const OutputItem& item) {
  std::string path = item.target;
  if (item.pack && !path.ends_with('/') && archive_suffix(path).empty()) path += ".tar.zst";
  const std::size_t pattern = path.find('%');
  if (pattern != std::string::npos) path.resize(path.rfind('/', pattern) + 1);
  return {without_slashes(path), pattern == std::string::npos};
}

// Returns the last of `path` that exists; empty if its file system gives no clear answer.
std::optional<Found> last_that_exists(std::string path) {
  for (;;) {
    struct stat info {};
    if (::stat(path.c_str(), &info) == 0) return Found{path, S_ISDIR(info.st_mode)};
    const bool is_clear = errno == ENOENT || errno == ENOTDIR || errno == EACCES;
    if (!is_clear || path == "/") return {};
    path = parent_of(path);
  }
}

// Returns "" when new names can be made in it, or when that is not known.
std::string why_not_writable(const std::string& directory) {
  if (::faccessat(AT_FDCWD, directory.c_str(), W_OK | X_OK, AT_EACCESS) == 0) return "";
  if (errno == EROFS) return directory + " is on a file system that is read-only on this host";
  return errno == EACCES ? "you may not write to " + directory : "";
}

// Whether the target must be a directory. A source's name does not say what the source will be.
bool needs_directory(const OutputItem& item) {
  return item.target.ends_with('/') || (is_glob(item.source) && !becomes_archive(item));
}

// Says what is at the target already.
std::string about_existing(const OutputItem& item, const Found& found) {
  if (becomes_archive(item) && found.is_directory && !item.target.ends_with('/'))
    return "it is a directory, which no archive can replace; to put the archive into it, write '/' "
           "at its end";
  if (!found.is_directory && needs_directory(item))
    return "it is a file, which only a file can replace, and no directory";
  return why_not_writable(found.is_directory ? found.path : parent_of(found.path));
}

std::string about_missing(const Found& found) {
  if (!found.is_directory) return found.path + " is a file";
  return why_not_writable(found.path);
}

}  // namespace

std::string about_target(const OutputItem& item) {
  const Known known = known_path(item);
  const auto found = last_that_exists(known.path);
  if (!found) return "";
  const bool is_there = known.is_whole && found->path == known.path;
  const std::string why = is_there ? about_existing(item, *found) : about_missing(*found);
  if (why.empty()) return "";
  return "the target " + item.target + " of '" + item.source +
         (is_there ? "' cannot be written: " : "' cannot be made: ") + why;
}

}  // namespace nodestage
