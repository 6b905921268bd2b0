#include "daemon/worker/deliver/source_fault.hpp"

#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "daemon/worker/tree/settled_file.hpp"

namespace nodestage {

Error source_fault(const Error& fault, const struct stat& info) {
  if (fault.code == ENOTCONN)
    return Error{k_ended_mount, "is a FUSE mount, and the program that served it has exited"};
  const bool is_foreign = info.st_mode != 0 && info.st_uid != ::geteuid();
  if (fault.code != EACCES || !is_foreign) return fault;
  return Error{k_foreign_entry,
               "is not readable for you: it belongs to uid " + std::to_string(info.st_uid)};
}

bool is_users_fault(int code) {
  constexpr int k_codes[] = {
      EACCES, EPERM,           EROFS,         ENOSPC,           EDQUOT,       EFBIG, ENOENT,
      EEXIST, EISDIR,          ENOTDIR,       ENOTEMPTY,        ENAMETOOLONG, ELOOP, EXDEV,
      EINVAL, k_foreign_entry, k_ended_mount, k_missing_source, k_was_changed};
  return std::find(std::begin(k_codes), std::end(k_codes), code) != std::end(k_codes);
}

}  // namespace nodestage
