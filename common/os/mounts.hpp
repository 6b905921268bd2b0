// Finds the mount that an open file is on, and what mounts there are.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "common/result.hpp"

namespace nodestage {

// The number of the mount that an open file is on, as in /proc/self/mountinfo; "" if unknown. `fd`
// may be O_PATH.
std::string mount_of(int fd);

// Returns whether the file system is mounted so that no program on it can be started, and no
// library loaded (mount(8), noexec). `fd` may be O_PATH.
bool is_noexec(int fd);

// Returns the text of /proc/self/mountinfo (proc_pid_mountinfo(5)).
Result<std::string> read_mountinfo();

// Views of the line that it was read from.
struct Mount {
  std::string_view number;
  std::string_view disk;     // of the file system: "8:1"
  std::string_view root;     // which directory of the file system is mounted, like `point`
  std::string_view point;    // where it is mounted; blanks and the like are octal there, as in \040
  std::string_view type;     // of the file system: "nfs4", "fuse.sshfs"
  std::string_view options;  // of the file system: "rw,vers=4.2"
  std::string_view device;   // or what else is mounted: "/dev/sda1", "server:/export"
};

// Returns a path of mountinfo in plain bytes.
std::string unescaped(std::string_view text);

// Returns what a line of mountinfo says.
std::optional<Mount> mount_in(std::string_view line);
std::optional<Mount> find_mount(std::string_view mountinfo, std::string_view number);

// Takes what is before the next `end`, and that with it.
std::string_view take_field(std::string_view& text, char end);

}  // namespace nodestage
