// PrivateDirectory: the job directory of `nodestage run`.
#pragma once

#include <string>

#include "common/os/fd.hpp"
#include "common/result.hpp"

namespace nodestage {

// Made with mode 0700 and a name of its own; removed at the end with all in it, unless it is kept.
class PrivateDirectory {
 public:
  // Below `parent`, which must be there; by default $TMPDIR, else /tmp.
  static Result<PrivateDirectory> make(const std::string& parent);
  PrivateDirectory(PrivateDirectory&& other) noexcept;
  ~PrivateDirectory();

  [[nodiscard]] const std::string& path() const { return path_; }  // absolute
  [[nodiscard]] int fd() const { return fd_.get(); }

  // The fault names what is left of it.
  Status remove();
  void keep() { is_ours_ = false; }

 private:
  PrivateDirectory(std::string path, Fd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  Fd fd_;
  bool is_ours_ = true;
};

}  // namespace nodestage
