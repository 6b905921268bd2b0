// POSIX ACLs of directories (acl(5)), as the kernel takes them: linux/posix_acl_xattr.h.
#pragma once

#include <cstdint>
#include <set>

#include "common/result.hpp"

namespace nodestage {

// Lets these users list and enter the directory, beside its owner, who may do everything, and
// nobody else. Without any, removes the ACL. Needs its owner's rights. EOPNOTSUPP: its file system
// has no ACLs; ENOSPC: there is no room for so many users.
Status let_in(int dir_fd, const std::set<std::uint32_t>& uids);

}  // namespace nodestage
