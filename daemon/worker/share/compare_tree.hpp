// The `compare` task: when a kept tree was last changed, for the daemon to compare with what it was
// when it was kept. Nothing in it is changed by this, so its directories must be readable.
//
// One ItemRecord, with these fields:
//   files        entries of every kind below the directory; 0 for a file
//   bytes_total  bytes on disk, with the top; a file with several names counts once
//   name         the newest ctime in the tree, the top included: "SECONDS.NANOSECONDS" since 1970,
//                the latter with nine digits
// Whoever writes to a file, changes a mode, makes or removes a name, or makes a hard link, in the
// tree or to a file of it, sets a new ctime in it.
#pragma once

#include <cstdint>
#include <string>

#include "common/result.hpp"

namespace nodestage {

struct TreeState {
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
  std::int64_t ctime = 0;  // nanoseconds since 1970
};

// Looks at `fd` (borrowed), a directory or a regular file; O_PATH is enough. Fails if a part of it
// cannot be looked at.
Result<TreeState> state_of_tree(int fd);

// Returns a text such as "1700000000.000000001".
std::string ctime_text(std::int64_t ctime);

// Compares k_worker_directory_fd, at low priority. The phase is done, or failed with the cause.
// Needs the rights of the tree's owner. Returns the exit code.
int run_compare();

}  // namespace nodestage
