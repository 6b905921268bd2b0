#include "daemon/worker/share/file_look.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cstring>

#include "common/os/file.hpp"

namespace nodestage {
namespace {

constexpr std::int64_t k_second = 1'000'000'000;
constexpr std::size_t k_max_fdinfo = 64 * 1024;

std::int64_t nanoseconds(const struct statx_timestamp& time) {
  return time.tv_sec * k_second + time.tv_nsec;
}

std::string_view take(std::string_view& text, char end) {
  const std::string_view part = text.substr(0, text.find(end));
  text.remove_prefix(std::min(part.size() + 1, text.size()));
  return part;
}

// In a list such as "rw,user_id=0,group_id=0".
bool has_option(std::string_view options, std::string_view wanted) {
  while (!options.empty()) {
    if (take(options, ',') == wanted) return true;
  }
  return false;
}

bool is_fuse(std::string_view type) {
  return type == "fuse" || type == "fuseblk" || type.starts_with("fuse.");
}

// `line`: what follows the mount's number.
bool is_reliable(std::string_view line) {
  static constexpr std::string_view k_separator = " - ";
  const std::size_t at = line.find(k_separator);
  if (at == std::string_view::npos) return false;
  std::string_view rest = line.substr(at + k_separator.size());
  const std::string_view type = take(rest, ' ');
  take(rest, ' ');  // the device
  if (is_fuse(type)) return has_option(rest, "user_id=0");
  return !type.starts_with("nfs") || !has_option(rest, "nocto");
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
  look.inode = info.stx_ino;
  look.size = info.stx_size;
  look.mtime = nanoseconds(info.stx_mtime);
  look.ctime = nanoseconds(info.stx_ctime);
  look.mode = info.stx_mode;
  return look;
}

// statx(2) reports it from Linux 5.8 on; this works everywhere.
std::string mount_of(int fd) {
  static constexpr std::string_view k_key = "mnt_id:\t";
  const auto text = read_file(AT_FDCWD, "/proc/self/fdinfo/" + std::to_string(fd), k_max_fdinfo);
  const std::size_t at = text ? text->find(k_key) : std::string::npos;
  if (at == std::string::npos) return {};
  std::string_view rest = std::string_view(*text).substr(at + k_key.size());
  return std::string(take(rest, '\n'));
}

bool reports_changes(std::string_view mountinfo, std::string_view mount) {
  while (!mount.empty() && !mountinfo.empty()) {
    std::string_view line = take(mountinfo, '\n');
    if (take(line, ' ') == mount) return is_reliable(line);
  }
  return false;
}

}  // namespace nodestage
