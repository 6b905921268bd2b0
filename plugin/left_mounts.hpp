// Mounts of jobs: mounts their images (common/wire/worker_order.hpp), and detaches these and what a
// job's programs have left. An ordinary user can mount with FUSE
// (squashfuse, sshfs, …). The program that serves such a mount is killed with its job and the mount
// stays, so that nothing in it can be read, and the directory below it can be neither moved nor
// removed. That is so for the name space of mounts in which the daemon and its workers are, the
// node's. A mount in a name space of a job's own keeps nothing from removal: the kernel drops it.
//
// Needs root, in the node's name space of mounts. The user can change the tree meanwhile: no link
// is followed, and no mount is entered, which might not answer.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "common/os/file.hpp"
#include "common/result.hpp"

namespace nodestage {

struct FuseMount {
  std::string number;  // of the mount, as in mountinfo
  std::string path;    // absolute

  bool operator==(const FuseMount&) const = default;
};

// Returns the FUSE mounts of all users but root, in the order of `mountinfo`
// (proc_pid_mountinfo(5)): what is mounted in or over another mount comes later.
std::vector<FuseMount> users_fuse_mounts(std::string_view mountinfo);
// Does the same for now; returns none if that cannot be read.
std::vector<FuseMount> users_fuse_mounts();

struct LeftMounts {
  std::vector<std::string> detached;  // paths below the directory
  std::vector<std::string> kept;      // the same, each with the cause
};

// Detaches what users have mounted below `directory`, which must be root's, as umount -l does.
// `chosen` gets each path below the directory.
LeftMounts detach_left_mounts(const std::string& directory,
                              const std::function<bool(std::string_view)>& chosen);

// Mounts the images of a job for its user, and for nobody else: read-only, on the directories of
// root's that the daemon has made below `directory`. Returns a descriptor of /dev/fuse for each:
// who has it answers for what is mounted, and when all copies are closed, the kernel ends that.
struct ImageUser {
  std::uint32_t uid;
  std::uint32_t gid;
};
Result<std::vector<Fd>> mount_images(const std::string& directory, std::size_t count,
                                     const ImageUser& owner);

}  // namespace nodestage
