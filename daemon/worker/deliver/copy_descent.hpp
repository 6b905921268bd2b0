// Where CopyOut is in the tree that it copies. Only its own sources include this.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "daemon/worker/deliver/copy_out.hpp"
#include "daemon/worker/deliver/deliver_leaf.hpp"
#include "daemon/worker/tree/dir_stack.hpp"
#include "daemon/worker/tree/tree_walk.hpp"

namespace nodestage {

// A directory below the target.
struct CopyOut::Level {
  std::string name;
  struct stat source;
  Made made = Made::before;
  bool is_new = false;      // made just now
  bool is_changed = false;  // a name was made in it
  bool is_lost = false;     // it cannot be opened, which was reported
};

// The state of a tree copy, on both sides. Early deliveries do not open the directories in which
// nothing is copied: `targets` has the first of `levels`, those that were opened.
struct CopyOut::Descent {
  DirStack targets;         // from the one in which it starts
  bool& is_changed;         // a name was made in that one
  std::string prefix = {};  // the path of that one, with a slash at the end
  std::vector<Level> levels = {};
  std::optional<TreeWalk> walk = {};

  [[nodiscard]] std::size_t opened() const { return targets.depth() - 1; }
  CopyInto into() {
    return {targets.top(), opened() == 0 ? is_changed : levels[opened() - 1].is_changed};
  }
  // The path of the first level that was not opened.
  [[nodiscard]] std::string next_path() const {
    std::string path = prefix + levels.front().name;
    for (std::size_t i = 1; i <= opened(); ++i) path += "/" + levels[i].name;
    return path;
  }
};

}  // namespace nodestage
