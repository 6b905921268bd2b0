// PrivateDirectory: the job directory of `nodestage run`.
#pragma once

#include <string>

#include "common/os/fd.hpp"
#include "common/result.hpp"

namespace nodestage {

// Created with mode 0700 and a unique name. The destructor removes it with its contents unless
// kept.
class PrivateDirectory {
 public:
  // Creates it below `parent`, which must exist; if empty: $TMPDIR, else /tmp.
  static Result<PrivateDirectory> make(const std::string& parent);
  PrivateDirectory(PrivateDirectory&& other) noexcept;
  ~PrivateDirectory();

  [[nodiscard]] const std::string& path() const { return path_; }  // absolute
  [[nodiscard]] int fd() const { return fd_.get(); }

  // The fault names what could not be removed.
  Status remove();
  void keep() { is_ours_ = false; }

 private:
  PrivateDirectory(std::string path, Fd fd) : path_(std::move(path)), fd_(std::move(fd)) {}

  std::string path_;
  Fd fd_;
  bool is_ours_ = true;
};

}  // namespace nodestage
