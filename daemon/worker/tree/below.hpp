// Opens directories below a root in a tree with other people's names: never through a link, never
// out of the root, at any length of path.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "common/os/fd.hpp"
#include "common/result.hpp"

namespace nodestage {

// Opens with O_PATH. `path` is relative, without "." and ".."; empty: the root itself. A fault's
// `what` is the cause alone (ELOOP: a link is on the path).
Result<Fd> open_directory_below(int root_fd, std::string_view path);

// Does the same, but creates missing directories (mode & ~umask) and adds their number to `made`.
Result<Fd> make_directories_below(int root_fd, std::string_view path, mode_t mode,
                                  std::size_t* made = nullptr);

// "a/b/c" → {"a/b", "c"}; "c" → {"", "c"}.
struct SplitPath {
  std::string_view parent;
  std::string_view name;
};
SplitPath split_path(std::string_view path);

}  // namespace nodestage
