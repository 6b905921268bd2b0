// OutputLinks: what the links of an output become in its target. The job directory is gone
// afterwards, so a link into it is worth only what is delivered.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "common/result.hpp"
#include "daemon/worker/tree/job_tree.hpp"

namespace nodestage {

// HardLinks: under which name a file with several links was first met, and what was created there.

// Remembers a file until all its links were met, so memory follows the files with links still to
// come.
class HardLinks {
 public:
  using Id = std::pair<dev_t, ino_t>;
  struct First {
    std::string name;
    Id copy;  // as passed to copied(); 0, 0: not yet
  };

  // What the first call for this file was given, or empty if this is the first.
  std::optional<First> first(const struct stat& info, const std::string& name) {
    if (info.st_nlink < 2) return {};
    const auto [entry, is_new] = links_.try_emplace(id(info), Link{{name, {}}, info.st_nlink});
    std::optional<First> first;
    if (!is_new) first = entry->second.first;
    if (--entry->second.left == 0) links_.erase(entry);
    return first;
  }

  // Notes that the first name is now that of `copy`.
  void copied(const struct stat& info, const struct stat& copy) {
    const auto found = links_.find(id(info));
    if (found != links_.end()) found->second.first.copy = id(copy);
  }

  // Forgets the file, since what has the name given to the first call cannot be used.
  void forget(const struct stat& info) { links_.erase(id(info)); }

  static Id id(const struct stat& info) { return {info.st_dev, info.st_ino}; }

 private:
  struct Link {
    First first;
    nlink_t left;  // names that were not met yet
  };
  std::map<Id, Link> links_;
};

// LeftOut: leaves what is no result out of the copies of an output.

// Whether an entry is no result, by its path below the job directory and what it looks like. A
// directory that is no result appears in a target only for what lies in it.
using LeavesOut = std::function<bool(const std::string& path, const struct stat& info)>;

// Does the same by the paths of the copies of one tree. Borrows leaves_out.
struct LeftOut {
  const LeavesOut* leaves_out = nullptr;  // null or empty: nothing is left out
  std::string source = {};                // where the tree lies in the job directory
  std::size_t target_size = 0;            // of where its copy lies: the beginning of the paths

  bool operator()(const std::string& path, const struct stat& info) const {
    return leaves_out != nullptr && *leaves_out &&
           (*leaves_out)(source + path.substr(target_size), info);
  }
};

// The most directories in the places of links, in each other. More are a fault.
inline constexpr unsigned k_most_links_to_directories = 40;
Error too_many_links();

// Directories and files by their paths. "" is around all.
class PathMap {
 public:
  struct Found {
    std::string path;
    std::string value;
  };
  void set(const std::string& path, const std::string& value);
  // What was set for the path, or for the nearest directory around it.
  [[nodiscard]] std::optional<Found> nearest(std::string path) const;

 private:
  std::unordered_map<std::string, std::string> values_;
  std::size_t longest_ = 0;  // of the paths
};

// How much of something is delivered.
enum class Linked {
  all,
  changed,  // what was not staged, or is not as it was
  nothing,
};

struct LinkFate {
  enum class Action {
    as_it_is,
    other_text,  // a link with `text`
    instead,     // what is at `place` is delivered under the link's name
    loop,        // as it is: what is at `place` contains the output
    staged,  // as it is: what it leads to is kept for other jobs, or too much of what was staged
  };
  Action action = Action::as_it_is;
  std::string text = {};
  std::optional<ResolvedPath> place =
      {};                      // what the link leads to, if that is in the job directory
  Linked share = Linked::all;  // of `instead`
};

// Links that lead out of the job directory, and those that lead nowhere, stay as they are. A link
// to something of the same output leads to its copy, by a relative path. What is elsewhere in the
// job directory is delivered in the place of the link, once: a further link leads to that copy. So
// no more is delivered than the job directory has.
class OutputLinks {
 public:
  // Borrows the tree. `sources` is how much is delivered of what --stage-out names.
  explicit OutputLinks(const JobTree& tree, Linked sources = Linked::all)
      : tree_(tree), share_of_sources_(sources) {}

  [[nodiscard]] const JobTree& tree() const { return tree_; }

  // Adds a `source` of the output (ResolvedPath::path), which is delivered as `target`: a path
  // below the target, or "" for the target itself. Call it for all that --stage-out names before
  // look().
  void add(const std::string& source, const std::string& target);

  // Sets what is left out of directories of which only what was changed is delivered.
  void leave_out(LeavesOut leaves_out) { leaves_out_ = std::move(leaves_out); }

  // How much is delivered in the place of a link that leads to it.
  using Share = std::function<Linked(const ResolvedPath&)>;
  void leave(Share share) { share_ = std::move(share); }

  // Puts the targets of what follows below `directory` of the real target; "": below that.
  void begin_in(const std::string& directory) { base_ = directory; }

  // The fate of the link `link`, which is delivered as `target`. If that is `instead`, what lies
  // below `target` is from there. A fault's `what` is the cause alone.
  Result<LinkFate> look(const SourceEntry& link, const std::string& target);

  // What is left out of what is delivered for `fate`, as `target`. Borrows from here.
  [[nodiscard]] LeftOut left_out(const LinkFate& fate, const std::string& target) const;

  // Notes that what lies below `target` is from `source`, of which another copy exists.
  void add_copy(const std::string& source, const std::string& target) {
    sources_.set(joined_path(base_, target), source);
  }

  // What `fate` leads to at the end of all links, if that is a directory in the job directory, to
  // be delivered instead.
  [[nodiscard]] std::optional<LinkFate> directory_of(const LinkFate& fate) const;

 private:
  [[nodiscard]] std::optional<std::string> copy_of(const ResolvedPath& place) const;
  [[nodiscard]] Result<ResolvedPath> find(const JobPath& path) const;
  [[nodiscard]] Result<LinkFate> absolute(const std::string& text, const std::string& target) const;
  [[nodiscard]] Result<LinkFate> relative(const SourceEntry& link, const std::string& text,
                                          const std::string& target) const;
  [[nodiscard]] Result<LinkFate> of_place(ResolvedPath place, const std::string& target) const;
  [[nodiscard]] LinkFate delivered(ResolvedPath place) const;
  [[nodiscard]] bool is_around(const std::string& path, const std::string& target) const;
  [[nodiscard]] LinkFate fate_of(ResolvedPath place, const std::string& target) const;

  const JobTree& tree_;
  Linked share_of_sources_;
  PathMap targets_;                          // by what is delivered
  PathMap sources_;                          // by where it is delivered
  std::unordered_set<std::string> around_;   // what --stage-out names, and all directories around
  std::unordered_set<std::string> partial_;  // of which only what was changed is delivered
  std::string base_;
  LeavesOut leaves_out_;
  Share share_;
};

}  // namespace nodestage
