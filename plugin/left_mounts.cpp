#include "plugin/left_mounts.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <optional>

#include "common/os/fd.hpp"
#include "common/os/file.hpp"
#include "common/text/parsing.hpp"

namespace nodestage {
namespace {

constexpr std::size_t k_max_mountinfo = std::size_t{16} * 1024 * 1024;
constexpr std::size_t k_mount_point = 4;  // its index among a line's fields
// A mount in another one cannot be reached, and goes with it. A directory that the user renames at
// this moment is found in a later pass, or by the epilog of the user's next job.
constexpr int k_passes = 5;

std::string_view take_word(std::string_view& rest) {
  const std::string_view word = rest.substr(0, rest.find(' '));
  rest.remove_prefix(std::min(rest.size(), word.size() + 1));
  return word;
}

// Blanks, newlines and backslashes are octal there.
std::string unescaped(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned code = 0;
    const char* const digits = text.data() + i + 1;
    const bool is_code = text[i] == '\\' && text.size() - i > 3 &&
                         std::from_chars(digits, digits + 3, code, 8).ptr == digits + 3;
    plain += is_code ? static_cast<char>(code) : text[i];
    if (is_code) i += 3;
  }
  return plain;
}

bool has_option(std::string_view options, std::string_view wanted) {
  while (!options.empty()) {
    const std::string_view option = options.substr(0, options.find(','));
    if (option == wanted) return true;
    options.remove_prefix(std::min(options.size(), option.size() + 1));
  }
  return false;
}

// The mount point of a line, if it is such a mount.
std::optional<std::string> fuse_mount_in(std::string_view line, std::uint32_t uid) {
  const std::size_t separator = line.find(" - ");
  if (separator == std::string_view::npos) return {};
  std::string_view rest = line.substr(separator + 3);
  const std::string_view type = take_word(rest);
  take_word(rest);
  if (type != "fuse" && type != "fuseblk" && !type.starts_with("fuse.")) return {};
  if (!has_option(rest, "user_id=" + std::to_string(uid))) return {};
  for (std::size_t i = 0; i < k_mount_point; ++i) take_word(line);
  return unescaped(take_word(line));
}

// As mountinfo shows it: without links.
std::string path_of(int fd) {
  char path[PATH_MAX];
  const ssize_t size = ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), path, PATH_MAX);
  return size <= 0 ? std::string() : std::string(path, static_cast<std::size_t>(size));
}

// The path below `directory`, or "".
std::string_view below(std::string_view path, std::string_view directory) {
  if (!path.starts_with(directory) || !path.substr(directory.size()).starts_with('/')) return {};
  return path.substr(directory.size() + 1);
}

// The mount itself is found by its name in its parent: nobody can rename a mount point.
Status detach(int directory_fd, const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const bool is_top = slash == std::string::npos;
  TRY_ASSIGN(const Fd parent,
             open_beneath(directory_fd, is_top ? "." : path.substr(0, slash), O_PATH | O_DIRECTORY,
                          0, RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV));
  const std::string name =
      "/proc/self/fd/" + std::to_string(parent.get()) + "/" + path.substr(is_top ? 0 : slash + 1);
  if (::umount2(name.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW) != 0) return system_error("umount");
  return {};
}

}  // namespace

std::vector<std::string> fuse_mounts_of(std::uint32_t uid, std::string_view mountinfo) {
  std::vector<std::string> found;
  while (!mountinfo.empty()) {
    const std::string_view line = mountinfo.substr(0, mountinfo.find('\n'));
    mountinfo.remove_prefix(std::min(mountinfo.size(), line.size() + 1));
    if (auto path = fuse_mount_in(line, uid)) found.push_back(std::move(*path));
  }
  return found;
}

std::vector<std::string> fuse_mounts_of(std::uint32_t uid) {
  const auto text = read_file(AT_FDCWD, "/proc/self/mountinfo", k_max_mountinfo);
  return text ? fuse_mounts_of(uid, *text) : std::vector<std::string>();
}

LeftMounts detach_left_mounts(const std::string& directory, std::uint32_t uid,
                              const std::function<bool(std::string_view)>& chosen) {
  LeftMounts left;
  const auto opened = open_at(AT_FDCWD, directory, O_PATH | O_DIRECTORY);
  if (!opened) return left;
  const std::string place = path_of(opened->get());
  for (int pass = 0; pass < k_passes; ++pass) {
    left.kept.clear();
    std::vector<std::string> mounts = fuse_mounts_of(uid);
    std::reverse(mounts.begin(), mounts.end());
    for (const std::string& mount : mounts) {
      const std::string path(below(mount, place));
      if (path.empty() || !chosen(path)) continue;
      const Status detached = detach(opened->get(), path);
      if (detached)
        left.detached.push_back(path);
      else
        left.kept.push_back(path + ": " + detached.error().what);
    }
    if (left.kept.empty()) break;
  }
  return left;
}

}  // namespace nodestage
