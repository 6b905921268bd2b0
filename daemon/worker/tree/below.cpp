#include "daemon/worker/tree/below.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>

#include "common/os/file.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_step_bytes = 4000;  // below PATH_MAX

Result<Fd> duplicate(int fd) {
  Fd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy) return system_error("dup");
  return copy;
}

Result<Fd> open_step(int dir_fd, std::string_view path) {
  // Without O_NOFOLLOW, with which a link at the end would be ENOTDIR.
  auto fd = open_beneath(dir_fd, std::string(path), O_PATH | O_DIRECTORY, 0, RESOLVE_NO_SYMLINKS);
  if (fd) return fd;
  const int code = fd.error().code;
  if (code == ELOOP) return Error{code, "a symbolic link is on the path"};
  return Error{code, std::strerror(code)};
}

// Returns the longest part of path, in whole names, that fits into one system call.
std::string_view first_step(std::string_view path) {
  if (path.size() <= k_step_bytes) return path;
  return path.substr(0, path.rfind('/', k_step_bytes));
}

std::string_view after(std::string_view path, std::string_view step) {
  return step.size() < path.size() ? path.substr(step.size() + 1) : std::string_view();
}

}  // namespace

Result<Fd> open_directory_below(int root_fd, std::string_view path) {
  Fd held;
  int at = root_fd;
  if (path.empty()) return duplicate(root_fd);
  while (!path.empty()) {
    const std::string_view step = first_step(path);
    TRY_ASSIGN(held, open_step(at, step));
    at = held.get();
    path = after(path, step);
  }
  return held;
}

Result<Fd> make_directories_below(int root_fd, std::string_view path, mode_t mode,
                                  std::size_t* made) {
  auto there = open_directory_below(root_fd, path);
  if (there || there.error().code != ENOENT) return there;
  TRY_ASSIGN(Fd at, duplicate(root_fd));
  while (!path.empty()) {
    const std::string_view name = path.substr(0, path.find('/'));
    const bool is_new = ::mkdirat(at.get(), std::string(name).c_str(), mode) == 0;
    if (!is_new && errno != EEXIST) return Error{errno, std::strerror(errno)};
    if (is_new && made != nullptr) ++*made;
    TRY_ASSIGN(at, open_step(at.get(), name));
    path = after(path, name);
  }
  return at;
}

SplitPath split_path(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return {"", path};
  return {path.substr(0, slash), path.substr(slash + 1)};
}

}  // namespace nodestage
