#include "daemon/worker/share/file_look.hpp"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>

#include <array>
#include <cstring>
#include <utility>

#include "common/os/mounts.hpp"

namespace nodestage {
namespace {

// In a list such as "rw,user_id=0,group_id=0".
bool has_option(std::string_view options, std::string_view wanted) {
  while (!options.empty()) {
    if (take_field(options, ',') == wanted) return true;
  }
  return false;
}

bool is_fuse(std::string_view type) {
  return type == "fuse" || type == "fuseblk" || type.starts_with("fuse.");
}

bool is_reliable(const Mount& mount) {
  if (is_fuse(mount.type)) return has_option(mount.options, "user_id=0");
  return !mount.type.starts_with("nfs") || !has_option(mount.options, "nocto");
}

// The mounts are read once for many files of one file system, by each thread of a worker.
std::uint64_t number_of_device(std::uint64_t device, int fd) {
  thread_local std::pair<std::uint64_t, std::uint64_t> last;
  if (last.second != 0 && last.first == device) return last.second;
  const auto mountinfo = read_mountinfo();
  last = {device, mountinfo ? number_of_mounted(*mountinfo, mount_of(fd)) : 0};
  return last.second;
}

}  // namespace

Result<FileLook> look_at(int fd) {
  struct statx info {};
  struct statfs system {};
  if (::statx(fd, "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, &info) != 0)
    return system_error("statx");
  if (::fstatfs(fd, &system) != 0) return system_error("fstatfs");
  FileLook look;
  look.device = ::makedev(info.stx_dev_major, info.stx_dev_minor);
  static_assert(sizeof system.f_fsid == sizeof look.file_system);
  std::memcpy(&look.file_system, &system.f_fsid, sizeof look.file_system);
  if (look.file_system == 0) look.file_system = number_of_device(look.device, fd);
  look.inode = info.stx_ino;
  look.size = info.stx_size;
  look.mtime = nanoseconds(info.stx_mtime);
  look.ctime = nanoseconds(info.stx_ctime);
  look.mode = info.stx_mode;
  return look;
}

std::uint64_t number_of_mounted(std::string_view mountinfo, std::string_view mount) {
  const auto found = find_mount(mountinfo, mount);
  if (!found) return 0;
  const std::string text = std::string(found->type) + " " + std::string(found->device);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  std::uint64_t number = 0;
  if (::EVP_Digest(text.data(), text.size(), digest.data(), nullptr, EVP_sha256(), nullptr) == 1)
    std::memcpy(&number, digest.data(), sizeof number);
  return number;
}

bool reports_changes(std::string_view mountinfo, std::string_view mount) {
  const auto found = find_mount(mountinfo, mount);
  return found && is_reliable(*found);
}

}  // namespace nodestage
