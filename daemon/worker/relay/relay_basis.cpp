#include "daemon/worker/relay/relay_basis.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <utility>

#include "common/os/file.hpp"
#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/spool/board.hpp"

namespace nodestage {
namespace {

class OriginalFile : public Original {
 public:
  OriginalFile(Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  Result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> into) override {
    auto count = pread_all(fd_.get(), into, offset);
    if (!count) return system_error(shown(path_) + ": cannot be read", count.error().code);
    return count;
  }

  void forget(std::uint64_t bytes) override {
    const auto length = static_cast<off_t>(bytes);
    static_cast<void>(::posix_fadvise(fd_.get(), 0, length, POSIX_FADV_DONTNEED));
  }

 private:
  Fd fd_;
  std::string path_;
};

}  // namespace

Status check_original_directory(const std::string& path, const RelayIdentity& identity) {
  const auto fd = open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY);
  if (!fd) return system_error(shown(path), fd.error().code);
  struct stat info {};
  if (::fstat(fd->get(), &info) != 0) return system_error(shown(path));
  if (directory_identity_of(info, identity.size) == identity) return {};
  return Error{ESTALE, shown(path) + ": is not the same directory here, or has changed"};
}

Result<std::unique_ptr<Original>> open_original(const std::string& path,
                                                const RelayIdentity& identity) {
  auto fd = open_at(AT_FDCWD, path, k_open_source);
  if (!fd) return system_error(shown(path), fd.error().code);
  struct stat info {};
  if (::fstat(fd->get(), &info) != 0) return system_error(shown(path));
  if (!S_ISREG(info.st_mode)) return Error{EINVAL, shown(path) + ": is not a regular file"};
  if (identity_of(info) != identity)
    return Error{ESTALE, shown(path) + ": is not the same file here, or has changed"};
  static_cast<void>(::posix_fadvise(fd->get(), 0, 0, POSIX_FADV_SEQUENTIAL));
  return std::unique_ptr<Original>(std::make_unique<OriginalFile>(std::move(*fd), path));
}

}  // namespace nodestage
