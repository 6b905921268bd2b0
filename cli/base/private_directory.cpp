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

Error not_of_a_run(const std::string& path) {
  return {EPERM, printable(path) + ": it is not a directory of `nodestage run` of yours"};
}

// EPERM if it is not the caller's.
Result<unsigned> mode_of_own(int directory_fd, const std::string& path) {
  struct stat found {};
  if (::fstat(directory_fd, &found) != 0) return system_error(path);
  if (found.st_uid != ::geteuid()) return not_of_a_run(path);
  return found.st_mode;
}

}  // namespace

Result<std::string> private_parent(const std::string& wanted) {
  TRY_ASSIGN(std::string path, absolute_path(chosen(wanted), submit_place()));
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

Status check_private(int directory_fd, const std::string& path) {
  TRY_ASSIGN(const unsigned mode, mode_of_own(directory_fd, path));
  constexpr unsigned k_others = 077;
  return (mode & k_others) == 0 ? Status() : not_of_a_run(path);
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
  TRY(mode_of_own(fd.get(), path));
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
