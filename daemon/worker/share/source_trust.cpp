#include "daemon/worker/share/source_trust.hpp"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>

#include "common/os/mounts.hpp"
#include "common/text/path_names.hpp"
#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/tree/tree_walk.hpp"

namespace nodestage {
namespace {

// In a list such as "rw,user_id=0,group_id=0".
bool has_option(std::string_view options, std::string_view wanted) {
  while (!options.empty()) {
    if (take_field(options, ',') == wanted) return true;
  }
  return false;
}

bool is_fuse(std::string_view type) {
  return type == "fuse" || type == "fuseblk" || type.starts_with("fuse.");
}

bool is_reliable(const Mount& mount) {
  if (is_fuse(mount.type)) return has_option(mount.options, "user_id=0");
  return !mount.type.starts_with("nfs") || !has_option(mount.options, "nocto");
}

// The mounts are read once for many files of one file system, by each thread of a worker.
std::uint64_t number_of_device(std::uint64_t device, int fd) {
  thread_local std::pair<std::uint64_t, std::uint64_t> last;
  if (last.second != 0 && last.first == device) return last.second;
  const auto mountinfo = read_mountinfo();
  last = {device, mountinfo ? number_of_mounted(*mountinfo, mount_of(fd)) : 0};
  return last.second;
}

}  // namespace

Result<FileLook> look_at(int fd) {
  struct statx info {};
  struct statfs system {};
  if (::statx(fd, "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, &info) != 0)
    return system_error("statx");
  if (::fstatfs(fd, &system) != 0) return system_error("fstatfs");
  FileLook look;
  look.device = ::makedev(info.stx_dev_major, info.stx_dev_minor);
  static_assert(sizeof system.f_fsid == sizeof look.file_system);
  std::memcpy(&look.file_system, &system.f_fsid, sizeof look.file_system);
  if (look.file_system == 0) look.file_system = number_of_device(look.device, fd);
  look.inode = info.stx_ino;
  look.size = info.stx_size;
  look.mtime = nanoseconds(info.stx_mtime);
  look.ctime = nanoseconds(info.stx_ctime);
  look.mode = info.stx_mode;
  return look;
}

std::uint64_t number_of_mounted(std::string_view mountinfo, std::string_view mount) {
  const auto found = find_mount(mountinfo, mount);
  if (!found) return 0;
  const std::string text = std::string(found->type) + " " + std::string(found->device);
  const auto digest = digest_of(text);
  std::uint64_t number = 0;
  if (digest) std::memcpy(&number, digest->data(), sizeof number);
  return number;
}

bool reports_changes(std::string_view mountinfo, std::string_view mount) {
  const auto found = find_mount(mountinfo, mount);
  return found && is_reliable(*found);
}

namespace {

constexpr const char* k_not_for_all = "its file system is not one that all users see alike";
constexpr const char* k_unreliable = "its file system does not tell reliably when a file changes";

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

Result<TreeDigest> digest_of(std::string_view text, const std::vector<TreeDigest>& below) {
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(::EVP_MD_CTX_new(),
                                                                   ::EVP_MD_CTX_free);
  TreeDigest digest{};
  if (!context || ::EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) != 1 ||
      ::EVP_DigestUpdate(context.get(), text.data(), text.size()) != 1 ||
      ::EVP_DigestUpdate(context.get(), below.data(), below.size() * sizeof(TreeDigest)) != 1 ||
      ::EVP_DigestFinal_ex(context.get(), digest.data(), nullptr) != 1)
    return Error{EIO, "this machine's OpenSSL has no SHA-256"};
  return digest;
}

void add_text(std::string& text, std::string_view name, const EntryInfo& info) {
  text.append(name).push_back('\0');
  const std::uint64_t values[] = {info.stx_mode,
                                  info.stx_size,
                                  static_cast<std::uint64_t>(nanoseconds(info.stx_mtime)),
                                  static_cast<std::uint64_t>(nanoseconds(info.stx_ctime)),
                                  info.stx_ino,
                                  device_of(info)};
  for (const std::uint64_t value : values) text.append(std::to_string(value)).push_back(' ');
  text.push_back('\0');
}

dev_t device_of(const EntryInfo& info) { return ::makedev(info.stx_dev_major, info.stx_dev_minor); }

LookedAt::LookedAt(LookedAt* above, std::string its_name, const EntryInfo& info, As as)
    : parent(above),
      name(std::move(its_name)),
      device(device_of(info)),
      inode(info.stx_ino),
      depth(above == nullptr || as == As::link ? 0 : above->depth + 1),
      links(above == nullptr ? 0 : above->links + (as == As::link ? 1 : 0)) {
  add_text(text_, name, info);
}

void LookedAt::add(const std::vector<TreeDigest>& digests) {
  const std::lock_guard lock(mutex_);
  entries_.insert(entries_.end(), digests.begin(), digests.end());
}

bool LookedAt::is_in(const EntryInfo& info) const {
  for (const LookedAt* at = this; at != nullptr; at = at->parent)
    if (at->device == device_of(info) && at->inode == info.stx_ino) return true;
  return false;
}

std::string LookedAt::path_of(std::string_view entry) const {
  std::vector<std::string_view> names{entry};
  for (const LookedAt* at = this; at->parent != nullptr; at = at->parent) names.push_back(at->name);
  std::string path;
  for (std::size_t i = names.size(); i-- > 0;) path.append(names[i]).append(i > 0 ? "/" : "");
  return path;
}

LookedAt& LookedDirectories::add(LookedAt* parent, const std::string& name, const EntryInfo& info,
                                 LookedAt::As as) {
  auto made = std::make_unique<LookedAt>(parent, name, info, as);
  LookedAt& directory = *made;
  const std::lock_guard lock(mutex_);
  directory.self_ = all_.insert(all_.end(), std::move(made));
  return directory;
}

// A loop: a recursion would fail at some depth. Nobody else uses a directory without parts.
Status LookedDirectories::end_part(LookedAt& directory) {
  for (LookedAt* at = &directory; at != nullptr && --at->parts == 0;) {
    std::sort(at->entries_.begin(), at->entries_.end());
    TRY_ASSIGN(const TreeDigest digest, digest_of(at->text_, at->entries_));
    LookedAt* const parent = at->parent;
    if (parent == nullptr) {
      digest_ = digest;
    } else {
      parent->add({digest});
    }
    std::unique_ptr<LookedAt> gone;  // destroyed without the lock
    const std::lock_guard lock(mutex_);
    gone = std::move(*at->self_);
    all_.erase(gone->self_);
    at = parent;
  }
  return {};
}

}  // namespace nodestage
