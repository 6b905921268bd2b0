#include "common/os/directory_stream.hpp"

#include <fcntl.h>

#include <cerrno>

namespace nodestage {

DirectoryStream::DirectoryStream(Fd directory) : stream_(::fdopendir(directory.get())) {
  if (!stream_) {
    code_ = errno;
    return;
  }
  static_cast<void>(directory.release());  // the stream closes it
}

DirectoryStream DirectoryStream::at(int dir_fd, const std::string& path) {
  Fd directory(::openat(dir_fd, path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory) return DirectoryStream(errno);
  return DirectoryStream(std::move(directory));
}

std::optional<std::string_view> DirectoryStream::next() {
  while (stream_ && code_ == 0) {
    errno = 0;
    const dirent* entry = ::readdir(stream_.get());
    if (entry == nullptr) {
      code_ = errno;
      return {};
    }
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") return name;
  }
  return {};
}

std::string only_name(int dir_fd) {
  auto names = DirectoryStream::at(dir_fd);
  std::string only;
  while (const auto name = names.next()) {
    if (!only.empty()) return {};
    only = *name;
  }
  return only;
}

}  // namespace nodestage
