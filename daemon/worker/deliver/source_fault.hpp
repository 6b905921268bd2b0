// Why an entry of a result cannot be read, where the error number alone would mislead.
#pragma once

#include <sys/stat.h>

#include <cerrno>

#include "common/result.hpp"

namespace nodestage {

// Codes that stand for causes, so that the target is not taken for the culprit:
inline constexpr int k_foreign_entry = EUSERS;  // EACCES for an entry of another user
inline constexpr int k_ended_mount = EREMCHG;   // ENOTCONN for a FUSE mount

// The fault, with what is known of the entry; `info`: all zeros if it could not be examined.
Error source_fault(const Error& fault, const struct stat& info);

}  // namespace nodestage
