// LeftOut: leaves what is no result out of the copies of an output.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <functional>
#include <string>

namespace nodestage {

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

}  // namespace nodestage
