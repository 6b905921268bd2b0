// CopyListener: learns of each entry of a tree once its copy is complete.
#pragma once

#include <sys/stat.h>

#include <string>

namespace nodestage {

// Any thread calls it; no call may fail the copy. `path` is below the root of the copy, "" for the
// root itself, and `info` is that of the source. A file comes before its other links, and a
// directory after all that is in it.
class CopyListener {
 public:
  CopyListener() = default;
  CopyListener(const CopyListener&) = delete;
  CopyListener& operator=(const CopyListener&) = delete;
  virtual ~CopyListener() = default;

  // `fd` is the copy, open for reading, and borrowed.
  virtual void file(const std::string& path, int fd, const struct stat& info) = 0;
  virtual void directory(const std::string& path, int fd, const struct stat& info) = 0;
  virtual void symlink(const std::string& path, const std::string& target,
                       const struct stat& info) = 0;
  // `path` was made a link to the file or link at `first`.
  virtual void hard_link(const std::string& path, const std::string& first) = 0;
};

}  // namespace nodestage
