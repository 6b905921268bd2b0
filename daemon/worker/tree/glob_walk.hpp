// GlobWalk: the paths that a glob matches: "*", "?" and "[…]" within a name, and "**", which is any
// number of directories, none too. It expands no braces (common/text/glob_text.hpp).
//
// As in a shell, what starts with '.' is matched only by a name that does, and "**" enters neither
// such directories nor links. Nothing matches a name that starts with ".nodestage". A "**" at the
// end is "*".
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/os/file.hpp"
#include "common/result.hpp"
#include "daemon/worker/tree/job_tree.hpp"
#include "daemon/worker/tree/tree_walk.hpp"

namespace nodestage {

class GlobWalk {
 public:
  // Globs are absolute paths, and links on the way are followed.
  GlobWalk() = default;
  // Globs are paths in the job directory, and links on the way lead to places in it. Borrowed.
  explicit GlobWalk(const JobTree& job) : job_(&job) {}

  // From here on, nothing is searched that is, or lies in, a directory of which this says so; its
  // path is that below the part of the glob that has no wildcard.
  using Excludes = std::function<bool(const std::string& below)>;
  void leave_out(Excludes excludes) { excludes_ = std::move(excludes); }

  // Adds the matches. Unlike a shell, it passes over nothing that it may not look at. In the fault,
  // `what` is the path of what cannot be looked at: of a directory that cannot be read, or of what
  // may be there and so is not missing. Fails with E2BIG if there are too many directories to
  // search. Outside of a job directory, FIFOs, sockets, and devices are counted, and do not match.
  Status add(const std::string& glob);

  // Adds a path, which may have been added before.
  void add_match(std::string path) { matches_.push_back(std::move(path)); }

  [[nodiscard]] std::size_t count() const { return matches_.size(); }
  [[nodiscard]] std::uint64_t specials() const { return specials_; }

  // Returns all of them, sorted, each once; none that lies in a directory which is another one.
  std::vector<std::string> take_matches();

 private:
  struct Glob {
    std::size_t start_size = 0;  // of the part without a wildcard
    std::vector<std::string> components;
    bool means_directories = false;  // it ends with '/'
  };
  Status expand(const Glob& glob, std::size_t at, const std::string& directory);
  Status expand_names(const Glob& glob, std::size_t at, const std::string& directory,
                      const std::vector<ListedName>& names);
  Status expand_depths(const Glob& glob, std::size_t at, const std::string& directory);
  Status add_end(const Glob& glob, const std::string& path, const ListedName* listed);
  [[nodiscard]] bool is_left_out(const Glob& glob, const std::string& directory) const;
  Result<std::vector<ListedName>> list(const std::string& directory);
  [[nodiscard]] Result<std::optional<Fd>> open(const std::string& directory) const;
  [[nodiscard]] Result<bool> has(const std::string& path) const;
  [[nodiscard]] bool is_directory(const std::string& path, LastLink last) const;
  [[nodiscard]] bool enters(const std::string& directory, const ListedName& listed) const;

  const JobTree* job_ = nullptr;
  Excludes excludes_;
  std::uint64_t searched_ = 0;  // directories
  std::uint64_t specials_ = 0;
  std::vector<std::string> matches_;
};

}  // namespace nodestage
