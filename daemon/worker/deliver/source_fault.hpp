// Why an entry of a result cannot be read, where the error number alone would mislead.
#pragma once

#include <sys/stat.h>

#include <cerrno>

#include "common/result.hpp"

namespace nodestage {

// Codes that stand for causes, so that the target is not taken for the culprit:
inline constexpr int k_foreign_entry = EUSERS;   // EACCES for an entry of another user
inline constexpr int k_ended_mount = EREMCHG;    // ENOTCONN for a FUSE mount
inline constexpr int k_missing_source = ENOMSG;  // what was meant may have another name

// The fault, with what is known of the entry; `info`: all zeros if it could not be examined.
Error source_fault(const Error& fault, const struct stat& info);

// Whether a fault with this code is one that the owner of the results can mend, at the target or in
// the next job, without an administrator.
bool is_users_fault(int code);

}  // namespace nodestage
