// Asks the kernel for what changes of an open file when the file does.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/result.hpp"

namespace nodestage {

inline constexpr std::int64_t k_ns_per_s = 1'000'000'000;

// `Time` is timespec or statx_timestamp.
template <typename Time>
std::int64_t nanoseconds(const Time& time) {
  return time.tv_sec * k_ns_per_s + time.tv_nsec;
}

struct FileLook {
  std::uint64_t device = 0;
  std::uint64_t file_system = 0;  // f_fsid of statfs(2), or number_of_mounted() where that is 0
  std::uint64_t inode = 0;
  std::uint64_t size = 0;  // bytes
  std::int64_t mtime = 0;  // nanoseconds since 1970
  std::int64_t ctime = 0;  // likewise
  std::uint32_t mode = 0;  // with the file's type

  bool operator==(const FileLook&) const = default;
};

// Asks the file's server, not a cache. `fd` may be O_PATH.
Result<FileLook> look_at(int fd);

// Returns a number for what is mounted, "server:/export" and the type: NFS and FUSE give none, and
// the device's number is another mount's once it is unmounted. 0 if it is unknown. It takes 2^64
// tries to name an export so that it has the number of another one. `mountinfo` and `mount`: as in
// common/os/mounts.hpp.
std::uint64_t number_of_mounted(std::string_view mountinfo, std::string_view mount);

// Returns whether the file system of a mount reports reliably when a file changes: not if it is
// unknown, a FUSE mount of an ordinary user, or NFS without close-to-open consistency (`nocto`).
// `mountinfo` and `mount`: as in common/os/mounts.hpp.
bool reports_changes(std::string_view mountinfo, std::string_view mount);

}  // namespace nodestage
