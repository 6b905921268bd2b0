// DirectoryStream: reads the names in one directory, in the order of the file system.
#pragma once

#include <dirent.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/os/fd.hpp"

namespace nodestage {

// Move-only. If the directory cannot be opened, or not be read to its end, next() returns fewer
// names, and code() says why.
class [[nodiscard]] DirectoryStream {
 public:
  // Reads from the offset of `directory` on.
  explicit DirectoryStream(Fd directory);

  // Opens `path`, with an offset of its own.
  static DirectoryStream at(int dir_fd, const std::string& path = ".");

  // Returns the next name other than "." and "..", valid until the next call. Empty after the last
  // name and after a fault.
  std::optional<std::string_view> next();

  // Returns the errno value of the fault that ended the names early; 0: no fault so far.
  [[nodiscard]] int code() const { return code_; }

 private:
  struct Close {
    void operator()(DIR* stream) const { ::closedir(stream); }
  };
  explicit DirectoryStream(int code) : code_(code) {}

  std::unique_ptr<DIR, Close> stream_;
  int code_ = 0;
};

// Returns the only name in a directory (borrowed); "" if there are more or none.
std::string only_name(int dir_fd);

}  // namespace nodestage
