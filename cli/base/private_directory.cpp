#include "cli/base/private_directory.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <utility>

#include "common/os/file.hpp"
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

Result<PrivateDirectory> PrivateDirectory::make(const std::string& parent) {
  std::string path = chosen(parent);
  if (!path.starts_with('/')) path = submit_place().directory + "/" + path;
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  const std::string shown = printable(path);
  path += "/nodestage-run-XXXXXX";
  if (::mkdtemp(path.data()) == nullptr)
    return system_error("cannot create a directory in " + shown);
  auto fd = open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (fd) return PrivateDirectory(path, std::move(*fd));
  ::rmdir(path.c_str());
  return fd.error();
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
