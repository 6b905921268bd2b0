// Looks at an entry as the server of a network file system has it: another node may have replaced
// it just now.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <string>

namespace nodestage {

// Does not follow a link. Sets of `info` what tells files apart: device, inode, size, and mtime.
inline bool look_afresh(int directory, const std::string& name, struct stat& info) {
  struct statx now {};
  constexpr int k_flags = AT_SYMLINK_NOFOLLOW | AT_STATX_FORCE_SYNC;
  if (::statx(directory, name.c_str(), k_flags, STATX_BASIC_STATS, &now) != 0) return false;
  info.st_dev = makedev(now.stx_dev_major, now.stx_dev_minor);
  info.st_ino = now.stx_ino;
  info.st_size = static_cast<off_t>(now.stx_size);
  info.st_mtim = {now.stx_mtime.tv_sec, now.stx_mtime.tv_nsec};
  return true;
}

}  // namespace nodestage
