// Whether others can replace what is in a directory.
#pragma once

#include <sys/stat.h>

namespace nodestage {

// Returns whether only `owner` and root can rename or remove what `owner` makes in the directory:
// it belongs to `owner`, and nobody else may write to it, or it is sticky.
inline bool is_changed_by_owner_only(const struct stat& directory, uid_t owner) {
  const bool others_write = (directory.st_mode & 022) != 0 && (directory.st_mode & S_ISVTX) == 0;
  return directory.st_uid == owner && !others_write;
}

// What a directory must be for that to be so, if the owner is root.
inline constexpr char k_root_only[] =
    "must belong to root and be writable by root only (or be sticky)";

}  // namespace nodestage
