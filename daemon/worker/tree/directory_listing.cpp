#include "daemon/worker/tree/directory_listing.hpp"

#include <dirent.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "common/os/file.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_open_levels = 32;

}  // namespace

Result<Fd> open_directory_at(int dir_fd, const std::string& name, unsigned long resolve) {
  auto fd = open_beneath(dir_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0, resolve);
  if (!fd) return Error{fd.error().code, std::strerror(fd.error().code)};
  return fd;
}

Status change_mode(int path_fd, mode_t mode) {
  constexpr long k_fchmodat2 = 452;  // Linux 6.6; unknown to older headers
  if (::syscall(k_fchmodat2, path_fd, "", mode, AT_EMPTY_PATH) == 0) return {};
  const std::string link = "/proc/self/fd/" + std::to_string(path_fd);
  if (::chmod(link.c_str(), mode) == 0) return {};
  return system_error("chmod");
}

Status DirStack::push(Fd child) {
  levels_.push_back({std::move(child), 0, 0});
  if (levels_.size() <= k_open_levels) return {};
  Level& far = levels_[levels_.size() - 1 - k_open_levels];
  if (!far.fd) return {};
  struct stat info {};
  if (::fstat(far.fd.get(), &info) != 0) return system_error("fstat");
  far.device = info.st_dev;
  far.inode = info.st_ino;
  far.fd.reset();
  return {};
}

Result<Fd> DirStack::pop() {
  TRY(reopen(levels_.size() - 2));
  Fd left = std::move(levels_.back().fd);
  levels_.pop_back();
  return left;
}

Status DirStack::reopen(std::size_t level) {
  Level& wanted = levels_[level];
  if (wanted.fd) return {};
  TRY_ASSIGN(Fd fd, open_at(levels_[level + 1].fd.get(), "..", O_PATH | O_DIRECTORY));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return system_error("fstat");
  if (info.st_dev != wanted.device || info.st_ino != wanted.inode) {
    return Error{ESTALE, "a directory was moved while it was read"};
  }
  wanted.fd = std::move(fd);
  return {};
}

namespace {

// Larger than readdir's, for file systems that answer each call over a network.
constexpr std::size_t k_block_bytes = std::size_t{128} * 1024;

// Returns false at the end.
Result<bool> read_block(int fd, std::vector<char>& block, std::vector<ListedName>& names) {
  const long size = ::syscall(SYS_getdents64, fd, block.data(), block.size());
  if (size < 0) return Error{errno, std::strerror(errno)};
  for (std::size_t at = 0; at < static_cast<std::size_t>(size);) {
    const auto* entry = reinterpret_cast<const dirent64*>(block.data() + at);
    at += entry->d_reclen;
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    names.push_back({entry->d_ino, entry->d_type, std::string(name)});
  }
  return size > 0;
}

}  // namespace

Result<std::vector<ListedName>> list_directory(int fd, std::size_t count) {
  thread_local std::vector<char> block(k_block_bytes);
  std::vector<ListedName> names;
  while (names.size() < count) {
    TRY_ASSIGN(const bool is_more, read_block(fd, block, names));
    if (!is_more) break;
  }
  return names;
}

}  // namespace nodestage
