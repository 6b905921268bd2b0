#include "daemon/worker/share/source_trust.hpp"

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <iterator>
#include <string_view>

#include "common/os/mounts.hpp"
#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/share/file_look.hpp"
#include "daemon/worker/tree/dir_stack.hpp"

namespace nodestage {
namespace {

constexpr const char* k_not_for_all = "its file system is not one that all users see alike";
constexpr const char* k_unreliable = "its file system does not tell reliably when a file changes";

bool is_below(std::string_view path, std::string_view directory) {
  while (directory.ends_with('/')) directory.remove_suffix(1);
  return path.starts_with(directory) &&
         (path.size() == directory.size() || path[directory.size()] == '/');
}

// The kernel lets no ordinary user mount these.
constexpr std::string_view k_of_the_site[] = {"ext4",   "xfs",  "btrfs",  "zfs",
                                              "nfs",    "nfs4", "lustre", "gpfs",
                                              "beegfs", "ceph", "panfs",  "wekafs"};

bool is_for_all(std::string_view mountinfo, std::string_view number) {
  const auto mount = find_mount(mountinfo, number);
  return mount && std::find(std::begin(k_of_the_site), std::end(k_of_the_site), mount->type) !=
                      std::end(k_of_the_site);
}

std::string never_from(const std::string& directory) {
  return "this site keeps nothing from " + shown(directory);
}

}  // namespace

std::string resolved(const std::string& path) {
  char to[PATH_MAX];
  return ::realpath(path.c_str(), to) != nullptr ? to : path;
}

bool is_of_the_site(int fd) {
  const auto mounts = read_mountinfo();
  return mounts && is_for_all(*mounts, mount_of(fd));
}

std::string SourceTrust::objection(const std::string& path, int fd) {
  const std::string real = never_.empty() ? "" : path_of(fd);
  for (const auto& directory : never_) {
    if (is_below(path, directory) || is_below(real, directory) ||
        is_below(real, resolved(directory)))
      return never_from(directory);
  }
  if (is_reliable(fd)) return {};
  return for_ == For::one_user ? k_unreliable : k_not_for_all;
}

std::string SourceTrust::objection_to_all(const std::string& path, int fd) {
  const std::string real = never_.empty() ? "" : path_of(fd);
  for (const auto& directory : never_) {
    if (is_below(directory, path) || is_below(directory, real) ||
        is_below(resolved(directory), real))
      return never_from(directory);
  }
  return objection(path, fd);
}

bool SourceTrust::is_reliable(int fd) {
  const std::lock_guard lock(mutex_);
  const auto [mount, is_new] = mounts_.try_emplace(mount_of(fd), false);
  if (!is_new) return mount->second;
  const auto mounts = read_mountinfo();
  mount->second = mounts && reports_changes(*mounts, mount->first) &&
                  (for_ == For::one_user || is_for_all(*mounts, mount->first));
  return mount->second;
}

}  // namespace nodestage
