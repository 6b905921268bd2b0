#include "cli/base/private_directory.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "common/os/directory_stream.hpp"
#include "common/os/file.hpp"
#include "common/request/option_parts.hpp"
#include "common/request/submission.hpp"
#include "common/text/human.hpp"
#include "daemon/worker/tree/remove_tree.hpp"

namespace nodestage {
namespace {

std::string chosen(const std::string& parent) {
  if (!parent.empty()) return parent;
  const char* variable = std::getenv("TMPDIR");
  return variable != nullptr && *variable != '\0' ? variable : "/tmp";
}

Error not_of_a_run(const std::string& path) {
  return {EPERM, printable(path) + ": it is not a directory of `nodestage run` of yours"};
}

// Opens it, but not through a link nor into a mount.
Result<Fd> open_here(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return not_of_a_run(path);
  TRY_ASSIGN(const Fd parent,
             open_at(AT_FDCWD, slash == 0 ? "/" : path.substr(0, slash), O_PATH | O_DIRECTORY));
  auto fd = open_beneath(parent.get(), path.substr(slash + 1), O_RDONLY | O_DIRECTORY | O_NOFOLLOW,
                         0, RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
  if (!fd) return system_error(path, fd.error().code);
  return fd;
}

Status check_private(int directory_fd, const std::string& path) {
  struct stat found {};
  if (::fstat(directory_fd, &found) != 0) return system_error(path);
  constexpr unsigned k_others = 077;
  const bool is_private = found.st_uid == ::geteuid() && (found.st_mode & k_others) == 0;
  return is_private ? Status() : not_of_a_run(path);
}

// Whoever may rename in the parent can have put another one of the caller's there.
Status check_empty(int directory_fd, const std::string& path) {
  auto names = DirectoryStream::at(directory_fd, ".");
  return names.next() ? Error{EEXIST, printable(path) + ": another directory was put in its place"}
                      : Status();
}

}  // namespace

Result<std::string> private_parent(const std::string& wanted) {
  TRY_ASSIGN(std::string path, absolute_path(chosen(wanted), submit_place()));
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

Result<Fd> open_private(const std::string& path) {
  TRY_ASSIGN(Fd fd, open_here(path));
  TRY(check_private(fd.get(), path));
  return fd;
}

Result<std::string> mark_of(int directory_fd) {
  struct statx found {};
  if (::statx(directory_fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &found) != 0)
    return system_error("statx");
  std::string mark;
  for (const std::uint64_t part :
       {std::uint64_t{found.stx_dev_major}, std::uint64_t{found.stx_dev_minor},
        std::uint64_t{found.stx_ino}, static_cast<std::uint64_t>(found.stx_btime.tv_sec),
        std::uint64_t{found.stx_btime.tv_nsec}})
    mark += std::to_string(part) + " ";
  return mark;
}

Result<PrivateDirectory> PrivateDirectory::make(const std::string& parent) {
  TRY_ASSIGN(std::string path, private_parent(parent));
  const std::string shown = printable(path);
  path.append("/").append(k_private_name).append("XXXXXX");
  if (::mkdtemp(path.data()) == nullptr)
    return system_error("cannot create a directory in " + shown);
  auto fd = open_private(path);
  const Status checked = fd ? check_empty(fd->get(), path) : fd.error();
  if (checked) return PrivateDirectory(path, std::move(*fd));
  ::rmdir(path.c_str());
  return checked.error();
}

Result<PrivateDirectory> PrivateDirectory::adopt(const std::string& path, const std::string& mark) {
  TRY_ASSIGN(Fd fd, open_here(path));
  TRY_ASSIGN(const std::string found, mark_of(fd.get()));
  if (found != mark) return not_of_a_run(path);
  PrivateDirectory directory(path, std::move(fd));
  directory.keep();
  return directory;
}

PrivateDirectory::PrivateDirectory(PrivateDirectory&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::move(other.fd_)),
      is_ours_(std::exchange(other.is_ours_, false)) {}

PrivateDirectory::~PrivateDirectory() {
  if (is_ours_) static_cast<void>(!remove());
}

Status PrivateDirectory::remove(const std::function<bool()>& must_stop) {
  is_ours_ = false;
  TRY(remove_tree_contents(fd_.get(), must_stop));
  if (::rmdir(path_.c_str()) != 0 && errno != ENOENT) return system_error(path_);
  return {};
}

}  // namespace nodestage
