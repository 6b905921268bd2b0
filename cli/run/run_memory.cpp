#include "cli/run/run_memory.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <string>

#include "common/os/directory_stream.hpp"

namespace nodestage {
namespace {

bool uses_memory(const StageRequest& request) {
  return std::any_of(request.datasets.begin(), request.datasets.end(),
                     [](const auto& item) { return item.storage == Storage::memory; });
}

// Another run may have found it before it was locked, and removed it.
bool is_held(const PrivateDirectory& directory) {
  struct stat own {};
  struct stat there {};
  return ::flock(directory.fd(), LOCK_EX | LOCK_NB) == 0 && ::fstat(directory.fd(), &own) == 0 &&
         ::lstat(directory.path().c_str(), &there) == 0 && own.st_ino == there.st_ino &&
         own.st_dev == there.st_dev;
}

}  // namespace

Result<std::optional<PrivateDirectory>> make_run_memory(const StageRequest& request,
                                                        const char* parent) {
  constexpr int k_tries = 100;
  if (!uses_memory(request)) return std::optional<PrivateDirectory>();
  for (int i = 0; i < k_tries; ++i) {
    TRY_ASSIGN(PrivateDirectory made, PrivateDirectory::make(parent));
    if (is_held(made)) return std::optional<PrivateDirectory>(std::move(made));
  }
  return Error{EBUSY, std::string(parent) + ": no directory can be locked there"};
}

void clear_dead_memory(const char* parent) {
  auto names = DirectoryStream::at(AT_FDCWD, parent);
  while (const auto name = names.next()) {
    if (!name->starts_with(k_private_name)) continue;
    const std::string path = std::string(parent).append("/").append(*name);
    const auto directory = open_private(path);
    if (!directory || ::flock(directory->get(), LOCK_EX | LOCK_NB) != 0) continue;
    const auto mark = mark_of(directory->get());
    if (!mark) continue;
    if (auto dead = PrivateDirectory::adopt(path, *mark)) static_cast<void>(!dead->remove());
  }
}

}  // namespace nodestage
