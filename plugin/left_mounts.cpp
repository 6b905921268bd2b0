#include "plugin/left_mounts.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "common/os/file.hpp"
#include "common/os/mounts.hpp"
#include "common/text/parsing.hpp"

namespace nodestage {
namespace {

// A mount in another one cannot be reached, and goes with it. A directory that the user renames at
// this moment is found in a later pass, or by the epilog of the user's next job.
constexpr int k_passes = 5;

// Returns its owner (by the kernel's word).
std::optional<std::uint32_t> owner_in(std::string_view options) {
  constexpr std::string_view k_owner = "user_id=";
  while (!options.empty()) {
    std::string_view option = take_field(options, ',');
    if (!option.starts_with(k_owner)) continue;
    option.remove_prefix(k_owner.size());
    return take_number<std::uint32_t>(option);
  }
  return {};
}

std::optional<FuseMount> users_mount_in(std::string_view line) {
  const auto mount = mount_in(line);
  if (!mount) return {};
  const std::string_view type = mount->type;
  if (type != "fuse" && type != "fuseblk" && !type.starts_with("fuse.")) return {};
  if (owner_in(mount->options).value_or(0) == 0) return {};
  return FuseMount{std::string(mount->number), unescaped(mount->point)};
}

// Returns the path below `directory`, or "".
std::string_view below(std::string_view path, std::string_view directory) {
  if (!path.starts_with(directory) || !path.substr(directory.size()).starts_with('/')) return {};
  return path.substr(directory.size() + 1);
}

// The user may have put another mount under that name meanwhile: what is detached has the number of
// the one that was chosen.
Status detach(int directory_fd, const std::string& path, const std::string& number) {
  const std::size_t slash = path.rfind('/');
  const bool is_top = slash == std::string::npos;
  TRY_ASSIGN(const Fd parent,
             open_beneath(directory_fd, is_top ? "." : path.substr(0, slash), O_PATH | O_DIRECTORY,
                          0, RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV));
  // Opens the root of the mount, without a question to the program that serves it.
  TRY_ASSIGN(const Fd mount,
             open_at(parent.get(), path.substr(is_top ? 0 : slash + 1), O_PATH | O_NOFOLLOW));
  if (mount_of(mount.get()) != number) return Error{ESTALE, "another mount is there now"};
  const std::string name = "/proc/self/fd/" + std::to_string(mount.get());
  if (::umount2(name.c_str(), MNT_DETACH) != 0) return system_error("umount");
  return {};
}

}  // namespace

std::vector<FuseMount> users_fuse_mounts(std::string_view mountinfo) {
  std::vector<FuseMount> found;
  while (!mountinfo.empty()) {
    if (auto mount = users_mount_in(take_field(mountinfo, '\n')))
      found.push_back(std::move(*mount));
  }
  return found;
}

std::vector<FuseMount> users_fuse_mounts() {
  const auto text = read_mountinfo();
  return text ? users_fuse_mounts(*text) : std::vector<FuseMount>();
}

LeftMounts detach_left_mounts(const std::string& directory,
                              const std::function<bool(std::string_view)>& chosen) {
  LeftMounts left;
  const auto opened = open_at(AT_FDCWD, directory, O_PATH | O_DIRECTORY);
  if (!opened) return left;
  const std::string place = path_of(opened->get());
  for (int pass = 0; pass < k_passes; ++pass) {
    left.kept.clear();
    std::vector<FuseMount> mounts = users_fuse_mounts();
    std::reverse(mounts.begin(), mounts.end());
    for (const FuseMount& mount : mounts) {
      const std::string path(below(mount.path, place));
      if (path.empty() || !chosen(path)) continue;
      const Status detached = detach(opened->get(), path, mount.number);
      if (detached)
        left.detached.push_back(path);
      else
        left.kept.push_back(path + ": " + detached.error().what);
    }
    if (left.kept.empty()) break;
  }
  return left;
}

namespace {

// What the kernel asks for at once: a mebibyte, where it can.
constexpr const char* k_fuse_options = "rootmode=40500,max_read=1048576";

// The directory is root's, and so is what it lies in.
Result<Fd> mount_image(int directory_fd, const std::string& name, const ImageUser& owner) {
  TRY_ASSIGN(const Fd point, open_beneath(directory_fd, name, O_PATH | O_DIRECTORY, 0,
                                          RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV));
  struct stat info {};
  if (::fstat(point.get(), &info) != 0) return system_error(name);
  if (info.st_uid != 0) return Error{EPERM, name + ": is not root's"};
  TRY_ASSIGN(Fd fuse, open_at(AT_FDCWD, "/dev/fuse", O_RDWR));
  const std::string options = "fd=" + std::to_string(fuse.get()) +
                              ",user_id=" + std::to_string(owner.uid) +
                              ",group_id=" + std::to_string(owner.gid) + "," + k_fuse_options;
  const std::string target = "/proc/self/fd/" + std::to_string(point.get());
  if (::mount("nodestage", target.c_str(), "fuse.nodestage", MS_RDONLY | MS_NOSUID | MS_NODEV,
              options.c_str()) != 0)
    return system_error("a file system of /dev/fuse cannot be mounted");
  return fuse;
}

}  // namespace

Result<std::vector<Fd>> mount_images(const std::string& directory, std::size_t count,
                                     const ImageUser& owner) {
  TRY_ASSIGN(const Fd opened, open_at(AT_FDCWD, directory, O_PATH | O_DIRECTORY | O_NOFOLLOW));
  std::vector<Fd> fuse;
  for (std::size_t i = 0; i < count; ++i) {
    TRY_ASSIGN(fuse.emplace_back(), mount_image(opened.get(), std::to_string(i), owner));
  }
  return fuse;
}

}  // namespace nodestage
