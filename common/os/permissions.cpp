#include "common/os/permissions.hpp"

#include <endian.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

namespace nodestage {
namespace {

constexpr const char* k_name = "system.posix_acl_access";
constexpr mode_t k_owner_alone = 0700;
constexpr auto k_no_id = static_cast<std::uint32_t>(ACL_UNDEFINED_ID);

posix_acl_xattr_entry entry(std::uint16_t tag, std::uint16_t rights, std::uint32_t id = k_no_id) {
  return {htole16(tag), htole16(rights), htole32(id)};
}

}  // namespace

// Sorted by tag and id, as acl_valid(3) wants them.
Status let_in(int dir_fd, const std::set<std::uint32_t>& uids) {
  if (uids.empty()) {
    if (::fremovexattr(dir_fd, k_name) != 0 && errno != ENODATA && errno != EOPNOTSUPP)
      return system_error("removexattr");
    return ::fchmod(dir_fd, k_owner_alone) == 0 ? Status() : Status(system_error("chmod"));
  }
  // Without the right to list it: who reads a directory into memory of a file system of theirs
  // holds its lock for as long as they like.
  constexpr std::uint16_t k_enter = ACL_EXECUTE;
  std::vector<posix_acl_xattr_entry> entries{
      entry(ACL_USER_OBJ, ACL_READ | ACL_WRITE | ACL_EXECUTE)};
  for (const std::uint32_t uid : uids) entries.push_back(entry(ACL_USER, k_enter, uid));
  entries.push_back(entry(ACL_GROUP_OBJ, 0));
  entries.push_back(entry(ACL_MASK, k_enter));
  entries.push_back(entry(ACL_OTHER, 0));
  std::vector<char> value(sizeof(posix_acl_xattr_header) + entries.size() * sizeof entries[0]);
  const posix_acl_xattr_header header{htole32(POSIX_ACL_XATTR_VERSION)};
  std::memcpy(value.data(), &header, sizeof header);
  std::memcpy(value.data() + sizeof header, entries.data(), entries.size() * sizeof entries[0]);
  if (::fsetxattr(dir_fd, k_name, value.data(), value.size(), 0) != 0)
    return system_error("setxattr");
  return {};
}

std::optional<LocalUser> local_user(const std::string& name) {
  const std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen("/etc/passwd", "re"), std::fclose);
  if (!file) return {};
  std::array<char, 4096> text{};
  passwd entry{};
  passwd* found = nullptr;
  while (::fgetpwent_r(file.get(), &entry, text.data(), text.size(), &found) == 0) {
    if (name == entry.pw_name) return LocalUser{entry.pw_uid, entry.pw_gid};
  }
  return {};
}

}  // namespace nodestage
