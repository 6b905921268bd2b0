// Extended attributes that staging may keep: those of the user's namespace, and POSIX ACLs, which
// the kernel shows as two more attributes. All others belong to the system.
//
// clang-format off
//   ACL   u32 version 2, then for each entry u16 tag, u16 permissions, u32 id (little-endian):
//         <linux/posix_acl_xattr.h>; entries in the order of tags, then of ids
//   text  "user::rw-,user:NAME:r--:1000,group::r--,mask::r--,other::---": acl(5); also one
//         per line, with an id as NAME, or as a fourth field as bsdtar writes it
// clang-format on
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.hpp"

namespace nodestage {

struct Xattr {
  std::string name;
  std::string value;  // of an ACL: in the kernel's format; empty: not known
};
using Xattrs = std::vector<Xattr>;
using SharedXattrs = std::shared_ptr<const Xattrs>;  // null: none

inline constexpr const char* k_access_acl = "system.posix_acl_access";
inline constexpr const char* k_default_acl = "system.posix_acl_default";

inline constexpr std::size_t k_max_xattr_name = 255;     // XATTR_NAME_MAX
inline constexpr std::size_t k_max_xattr_value = 65536;  // XATTR_SIZE_MAX

bool is_kept_xattr(std::string_view name);

// Returns nothing if it is not an ACL, or names an account without its id.
std::optional<std::string> acl_of_text(std::string_view text);

// Adds it, or replaces one with that name; more than a thousand are dropped.
void put_xattr(Xattrs& xattrs, std::string name, std::string value);

// Returns the memory that they take.
std::size_t bytes_of(const SharedXattrs& xattrs);

// Sets them on a file or directory; `path_fd` may be O_PATH. The owner must be allowed to write to
// it, and an ACL changes its mode. Returns how many the file system does not accept.
std::size_t set_xattrs(int path_fd, const Xattrs& xattrs);

// The attributes of `fd`, which is open for reading; empty if there are none or the file system has
// none. Attributes that are removed meanwhile are left out.
Result<Xattrs> read_xattrs(int fd);

}  // namespace nodestage
