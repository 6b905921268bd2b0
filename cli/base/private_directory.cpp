#include "cli/base/private_directory.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

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

}  // namespace

Result<std::string> private_parent(const std::string& wanted) {
  TRY_ASSIGN(std::string path, absolute_path(chosen(wanted), submit_place()));
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

Status check_private(int directory_fd, const std::string& path) {
  struct stat found {};
  if (::fstat(directory_fd, &found) != 0) return system_error(path);
  constexpr unsigned k_others = 077;
  if (found.st_uid == ::geteuid() && (found.st_mode & k_others) == 0) return {};
  return Error{EPERM, printable(path) + ": it is not a directory of `nodestage run` of yours"};
}

Result<PrivateDirectory> PrivateDirectory::make(const std::string& parent) {
  TRY_ASSIGN(std::string path, private_parent(parent));
  const std::string shown = printable(path);
  path.append("/").append(k_private_name).append("XXXXXX");
  if (::mkdtemp(path.data()) == nullptr)
    return system_error("cannot create a directory in " + shown);
  auto fd = open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (fd) return PrivateDirectory(path, std::move(*fd));
  ::rmdir(path.c_str());
  return fd.error();
}

Result<PrivateDirectory> PrivateDirectory::adopt(const std::string& path) {
  TRY_ASSIGN(Fd fd, open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  TRY(check_private(fd.get(), path));
  return PrivateDirectory(path, std::move(fd));
}

PrivateDirectory::PrivateDirectory(PrivateDirectory&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::move(other.fd_)),
      is_ours_(std::exchange(other.is_ours_, false)) {}

PrivateDirectory::~PrivateDirectory() {
  if (is_ours_) static_cast<void>(!remove());
}

Status PrivateDirectory::remove() {
  is_ours_ = false;
  TRY(remove_tree_contents(fd_.get()));
  if (::rmdir(path_.c_str()) != 0 && errno != ENOENT) return system_error(path_);
  return {};
}

}  // namespace nodestage
