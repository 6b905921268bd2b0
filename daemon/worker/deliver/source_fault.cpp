#include "daemon/worker/deliver/source_fault.hpp"

#include <unistd.h>

namespace nodestage {

Error source_fault(const Error& fault, const struct stat& info) {
  if (fault.code == ENOTCONN)
    return Error{k_ended_mount, "is a FUSE mount, and the program that served it has exited"};
  const bool is_foreign = info.st_mode != 0 && info.st_uid != ::geteuid();
  if (fault.code != EACCES || !is_foreign) return fault;
  return Error{k_foreign_entry,
               "is not readable for you: it belongs to uid " + std::to_string(info.st_uid)};
}

}  // namespace nodestage
