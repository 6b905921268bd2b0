// Who may use a directory: POSIX ACLs (acl(5)), as the kernel takes them (linux/posix_acl_xattr.h),
// who else can replace what is in it, and the system users of this host.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "common/result.hpp"

namespace nodestage {

// Whether others can replace what is in a directory.

// Returns whether only `owner` and root can rename or remove what `owner` makes in the directory:
// it belongs to `owner`, and nobody else may write to it, or it is sticky.
inline bool is_changed_by_owner_only(const struct stat& directory, uid_t owner) {
  const bool others_write = (directory.st_mode & 022) != 0 && (directory.st_mode & S_ISVTX) == 0;
  return directory.st_uid == owner && !others_write;
}

// What a directory must be for that to be so, if the owner is root.
inline constexpr char k_root_only[] =
    "must belong to root and be writable by root only (or be sticky)";

// Lets these users list and enter the directory, beside its owner, who may do everything, and
// nobody else. Without any, removes the ACL. Needs its owner's rights. EOPNOTSUPP: its file system
// has no ACLs; ENOSPC: there is no room for so many users.
Status let_in(int dir_fd, const std::set<std::uint32_t>& uids);

// A system user of this host, without NSS.

struct LocalUser {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
};

// Returns what /etc/passwd says. NSS may ask a server that does not answer.
std::optional<LocalUser> local_user(const std::string& name);

}  // namespace nodestage
