// DirectoryStream: the names in one directory, in the order of the file system.
#pragma once

#include <dirent.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/os/fd.hpp"

namespace nodestage {

// Move-only. A directory that cannot be opened or read to its end has fewer names; code() says so.
class [[nodiscard]] DirectoryStream {
 public:
  // Reads from where `directory` stands.
  explicit DirectoryStream(Fd directory);

  // Opens `path` anew, with an offset of its own.
  static DirectoryStream at(int dir_fd, const std::string& path = ".");

  // The next name but "." and "..". It is valid until the next call. Nothing after the last name,
  // or after a fault.
  std::optional<std::string_view> next();

  // The value of errno that ended the names early; 0: there was none so far.
  [[nodiscard]] int code() const { return code_; }

 private:
  struct Close {
    void operator()(DIR* stream) const { ::closedir(stream); }
  };
  explicit DirectoryStream(int code) : code_(code) {}

  std::unique_ptr<DIR, Close> stream_;
  int code_ = 0;
};

}  // namespace nodestage
