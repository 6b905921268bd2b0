// Explains why an entry of a result cannot be read, where errno alone would mislead.
#pragma once

#include <sys/stat.h>

#include <cerrno>

#include "common/result.hpp"

namespace nodestage {

// Codes that stand for causes, so that the target is not taken for the culprit:
inline constexpr int k_foreign_entry = EUSERS;   // EACCES for an entry of another user
inline constexpr int k_ended_mount = EREMCHG;    // ENOTCONN for a FUSE mount
inline constexpr int k_missing_source = ENOMSG;  // what was meant may have another name

// Returns the fault with what is known of the entry; `info` is zero if that is nothing.
Error source_fault(const Error& fault, const struct stat& info);

// Returns whether a fault with this code is one that the owner of the results can mend, at the
// target or in the next job, without an administrator.
bool is_users_fault(int code);

}  // namespace nodestage
