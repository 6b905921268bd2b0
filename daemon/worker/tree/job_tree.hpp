// JobTree: a job's directory as the job saw it, wherever it lies now. Links lead on below it, also
// those with an absolute path that begins with the directory's, and never out of it.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/os/file.hpp"
#include "common/result.hpp"
#include "daemon/worker/tree/file_data.hpp"

namespace nodestage {

// Opens directories below a root in a tree with other people's names: never through a link, never
// out of the root, at any length of path.

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

// Where a path leads.
struct ResolvedPath {
  enum class Kind {
    there,
    missing,
    outside,  // not below the job directory
  };
  Kind kind = Kind::missing;
  std::string path;      // below the job directory, over no link; of `outside`: absolute
  Fd parent;             // `there`: the directory that has it
  struct stat info {};   // `there`: of the entry itself
  unsigned links = 0;    // how many were followed
  bool is_kept = false;  // by relative names alone, which never left JobPath::within

  [[nodiscard]] SourceEntry entry() const;
  // Opens it with O_PATH. Fails if it is not a directory.
  [[nodiscard]] Result<Fd> open_directory() const;
};

enum class LastLink { follow, keep };  // if the path's last name is a link

// What to look up.
struct JobPath {
  std::string_view text;  // relative
  LastLink last = LastLink::follow;
  std::string_view from = {};    // the directory in which `text` stands; below the job directory
  std::string_view within = {};  // a directory around `from`, for ResolvedPath::is_kept
};

class JobTree {
 public:
  // Borrows `fd`, the directory. `path` is what the job calls it, or called it before a move.
  JobTree(int fd, const std::string& path);

  [[nodiscard]] int fd() const { return fd_; }

  // Returns what an absolute path names in the job directory; empty if it begins otherwise.
  [[nodiscard]] std::optional<std::string> below(std::string_view absolute) const;

  // Follows every link on the way, 40 at most (ELOOP). No call of it leaves the directory. A
  // fault's `what` is the cause alone.
  [[nodiscard]] Result<ResolvedPath> find(const JobPath& path) const;

  // Returns the part of a path, which leads out of the directory, that is the link.
  [[nodiscard]] std::string link_out(const std::string& path) const;
  // Fails if a target of that path, followed as the user would, lies in the directory or would be
  // made there: it would be removed with it, at the time that `removed` names. What is mounted
  // there counts as elsewhere.
  [[nodiscard]] Status check_outside(const std::string& target, const char* removed) const;

 private:
  class Search;
  int fd_;
  std::vector<std::string> names_;  // the directory's paths: as given, without links, as it is now
};

// Returns whether `path` is `top` or below it; both without "." and "..". Everything is below "".
bool lies_in(std::string_view path, std::string_view top);
// Does the same for any of many, in the time for a few.
bool lies_in_any(const std::string& path, const std::set<std::string>& tops);

// Makes "a/b/c" of "a/b" and "c"; either may be empty.
std::string joined_path(std::string_view directory, std::string_view name);

}  // namespace nodestage
