#include "daemon/root/basis/areas.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstring>
#include <random>

#include "common/os/permissions.hpp"
#include "common/text/parsing.hpp"
#include "common/wire/worker_order.hpp"

namespace nodestage {
namespace {

constexpr const char* k_images = ".nodestage-images";  // k_image_area
constexpr off_t k_small_file = off_t{1} << 20;         // is removed at once

Result<Fd> make_private(int dir_fd, const std::string& name, std::uint32_t owner) {
  TRY(make_missing_directory(dir_fd, name, 0700));
  TRY_ASSIGN(Fd fd, open_at(dir_fd, name, k_directory));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return system_error(name);
  if (info.st_uid != owner || (info.st_mode & 077) != 0) {
    return Error{EPERM, name + ": must belong to root with mode 0700"};
  }
  return fd;
}

// Users pass through it to what is theirs.
Result<Fd> open_passage(int dir_fd, const std::string& name, std::uint32_t owner) {
  TRY_ASSIGN(Fd fd, open_at(dir_fd, name, k_directory));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return system_error(name);
  if (info.st_uid != owner || (info.st_mode & 022) != 0)
    return Error{EPERM, name + ": must belong to root and be writable by root only"};
  return fd;
}

Result<Fd> make_passage(int dir_fd, const std::string& name, std::uint32_t owner) {
  TRY(make_missing_directory(dir_fd, name, 0711));
  return open_passage(dir_fd, name, owner);
}

Result<std::optional<Fd>> open_users(int dir_fd, const std::string& name, std::uint32_t uid,
                                     Mounts mounts) {
  auto fd =
      open_beneath(dir_fd, name, k_directory, 0, mounts == Mounts::refuse ? RESOLVE_NO_XDEV : 0UL);
  if (!fd && fd.error().code == EXDEV) return Error{EXDEV, name + ": something is mounted there"};
  if (!fd && fd.error().code == ENOENT) return std::optional<Fd>();
  if (!fd) return std::move(fd.error());
  struct stat info {};
  if (::fstat(fd->get(), &info) != 0) return system_error(name);
  if (info.st_uid != uid) {
    return Error{EPERM, name + ": belongs to uid " + std::to_string(info.st_uid) +
                            ", not to the job's user"};
  }
  return std::optional<Fd>(std::move(*fd));
}

// In a directory where all may write, whoever comes first may take the name. What is put aside
// stays its owner's.
Status put_aside(int dir_fd, const std::string& name, std::uint32_t owner) {
  struct stat info {};
  if (::fstatat(dir_fd, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 || info.st_uid == owner)
    return {};
  // A name that nobody can have taken before.
  std::random_device random;
  const std::string aside =
      name + ".not-root." + std::to_string(random()) + "." + std::to_string(random());
  return ::renameat2(dir_fd, name.c_str(), dir_fd, aside.c_str(), RENAME_NOREPLACE) == 0
             ? Status()
             : system_error(name);
}

// On any other file system, the data would fill the node's disk, or outlive a power loss.
Result<Fd> open_memory_at(const std::string& path, std::uint32_t owner) {
  TRY_ASSIGN(const Fd top, open_at(AT_FDCWD, path, O_RDONLY | O_DIRECTORY));
  struct stat info {};
  struct statfs file_system {};
  if (::fstat(top.get(), &info) != 0 || ::fstatfs(top.get(), &file_system) != 0)
    return system_error(path);
  if (file_system.f_type != TMPFS_MAGIC) return Error{EINVAL, path + ": is not a tmpfs"};
  if (!is_changed_by_owner_only(info, owner)) return Error{EPERM, path + ": " + k_root_only};
  TRY(put_aside(top.get(), ".nodestage-memory", owner));
  auto passage = make_passage(top.get(), ".nodestage-memory", owner);
  if (!passage) return Error{passage.error().code, path + "/" + passage.error().what};
  return passage;
}

// Parses "<uid>.<gid>.<n>", a name that trash() made.
std::optional<TrashEntry> parse_trash_name(const std::string& name) {
  std::string_view rest = name;
  const auto uid = take_number<std::uint32_t>(rest);
  if (!uid || !rest.starts_with('.')) return {};
  rest.remove_prefix(1);
  const auto gid = take_number<std::uint32_t>(rest);
  if (!gid || !rest.starts_with('.')) return {};
  return TrashEntry{name, *uid, *gid};
}

// The jobs that have a directory there.
std::vector<JobKey> keys_in(const Fd& area) {
  std::vector<JobKey> jobs;
  if (!area) return jobs;
  auto directory = DirectoryStream::at(area.get());
  while (const auto name = directory.next()) {
    std::string_view rest = *name;
    const auto job = take_number<std::uint32_t>(rest);
    if (!job || !rest.starts_with('.')) continue;
    const auto restart = parse_number<std::uint32_t>(rest.substr(1));
    if (restart) jobs.push_back({*job, *restart});
  }
  return jobs;
}

}  // namespace

std::string to_text(const JobKey& key) {
  return std::to_string(key.job) + "." + std::to_string(key.restart);
}

Result<Areas> Areas::open(const std::string& root, std::uint32_t owner) {
  Areas areas;
  areas.root_ = root;
  areas.owner_ = owner;
  TRY_ASSIGN(areas.root_fd_, open_at(AT_FDCWD, root, O_RDONLY | O_DIRECTORY));
  struct stat info {};
  if (::fstat(areas.root_fd_.get(), &info) != 0) return system_error(root);
  if (!is_changed_by_owner_only(info, owner)) return Error{EPERM, root + ": " + k_root_only};
  TRY_ASSIGN(const Fd hidden, make_private(areas.root_fd_.get(), ".nodestage", owner));
  TRY_ASSIGN(areas.status_, make_private(hidden.get(), "status", owner));
  TRY_ASSIGN(areas.trash_, make_private(hidden.get(), "trash", owner));
  TRY_ASSIGN(areas.hold_, make_private(hidden.get(), "hold", owner));
  auto cache = make_passage(areas.root_fd_.get(), ".nodestage-cache", owner);
  if (cache)
    areas.cache_ = std::move(*cache);
  else
    areas.cache_fault_ = root + "/" + cache.error().what;
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);  // trash names must differ from those of an earlier daemon
  areas.next_trash_ = static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
                      static_cast<std::uint64_t>(now.tv_nsec);
  for (const TrashEntry& entry : areas.list_trash(Medium::disk)) areas.add_trash(entry);
  return areas;
}

Result<Areas::Maker> Areas::make_directory(const std::string& name, std::uint32_t uid,
                                           std::uint32_t gid) const {
  const auto make = [&] { return ::mkdirat(root_fd_.get(), name.c_str(), 0700) == 0; };
  if (!make()) {
    if (errno != EEXIST) return system_error(path_of(name));
    if (!remove_begun(name)) {
      TRY_ASSIGN(const auto existing, open_directory(name, uid));
      if (existing) return Maker::another;
      return Error{EEXIST, path_of(name) + ": is in the way"};
    }
    if (!make()) return system_error(path_of(name));
  }
  const auto fd = open_at(root_fd_.get(), name, k_directory);
  if (fd && ::fchown(fd->get(), uid, gid) == 0) return Maker::nodestage;
  const Error fault = fd ? system_error(path_of(name)) : fd.error();
  static_cast<void>(remove_begun(name));
  return fault;
}

// Removes what a daemon leaves that dies before the directory is the user's: root's, and empty.
bool Areas::remove_begun(const std::string& name) const {
  struct stat info {};
  return ::fstatat(root_fd_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 &&
         info.st_mode == (S_IFDIR | 0700) && info.st_uid == owner_ &&
         ::unlinkat(root_fd_.get(), name.c_str(), AT_REMOVEDIR) == 0;
}

Result<std::optional<Fd>> Areas::open_directory(const std::string& name, std::uint32_t uid,
                                                Mounts mounts) const {
  auto fd = open_users(root_fd_.get(), name, uid, mounts);
  if (!fd) return Error{fd.error().code, root_ + "/" + fd.error().what};
  return fd;
}

bool Areas::is_mount(int directory_fd) const {
  struct statx info {};
  struct statx root {};
  if (::statx(directory_fd, "", AT_EMPTY_PATH, 0, &info) != 0 ||
      ::statx(root_fd_.get(), "", AT_EMPTY_PATH, 0, &root) != 0)
    return false;
  if ((info.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0)
    return (info.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
  // A kernel before 5.8: bind mounts of the same file system cannot be recognized.
  return info.stx_dev_major != root.stx_dev_major || info.stx_dev_minor != root.stx_dev_minor;
}

bool Areas::is_covered(const std::string& name) const {
  const auto directory =
      open_beneath(root_fd_.get(), name, O_PATH | O_NOFOLLOW, 0, RESOLVE_NO_XDEV);
  return !directory && directory.error().code == EXDEV;
}

Result<Fd> Areas::open_status(const JobKey& key, const char* task, int flags) const {
  return open_at(status_.get(), to_text(key) + "." + task, flags | O_NOFOLLOW, 0600);
}

void Areas::remove_status(const JobKey& key) const {
  for (const char* task :
       {"stage", "answer", "out", "measure", "recover", "identify", "push", "delivered", "relay",
        "plan", "look", "keep", "serve", "read-rate", "deliver-rate"}) {
    remove_status(key, task);
  }
}

void Areas::remove_status(const JobKey& key, const char* task) const {
  ::unlinkat(status_.get(), (to_text(key) + "." + task).c_str(), 0);
}

std::string Areas::new_trash_name(std::uint32_t uid, std::uint32_t gid) {
  return std::to_string(uid) + "." + std::to_string(gid) + "." + std::to_string(next_trash_++);
}

void Areas::add_trash(const TrashEntry& entry) {
  new_trash_.push_back(entry);
  ++trash_of_[entry.uid];
}

Status Areas::trash(int from_fd, const std::string& from, TrashEntry entry) {
  entry.name = new_trash_name(entry.uid, entry.gid);
  const int to_fd = trash_fd(entry.medium);
  Status moved = rename_users_tree(from_fd, from, entry.uid, to_fd, entry.name);
  if (moved) {
    add_trash(entry);
  } else if (moved.error().code != ENOENT) {
    if (moved.error().code == EBUSY) perhaps_trash_.push_back(entry);
    return moved;
  }
  return {};
}

std::vector<TrashEntry> Areas::take_new_trash() {
  std::erase_if(perhaps_trash_, [this](const TrashEntry& entry) {
    const bool is_there =
        ::faccessat(trash_fd(entry.medium), entry.name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    if (is_there) add_trash(entry);
    return is_there;
  });
  return std::exchange(new_trash_, {});
}

std::string Areas::path_in(int dir_fd, const std::string& name) const {
  if (dir_fd == memory_.get()) return memory_path_ + "/" + name;
  if (dir_fd == memory_trash_.get()) return memory_path_ + "/trash/" + name;
  if (dir_fd == hold_.get()) return path_of(hold_name() + "/" + name);
  if (dir_fd == trash_.get()) return path_of(".nodestage/trash/" + name);
  return dir_fd == cache_.get() ? cache_path() + "/" + name : path_of(name);
}

Status Areas::rename_users_tree(int from_fd, const std::string& from, std::uint32_t uid, int to_fd,
                                const std::string& to) {
  return on_users_tree(UserLocks::Kind::rename, from_fd, from, uid, {to_fd}, [&] {
    return ::renameat(from_fd, from.c_str(), to_fd, to.c_str()) == 0 ? 0 : errno;
  });
}

Status Areas::on_users_tree(UserLocks::Kind kind, int dir_fd, const std::string& name,
                            std::uint32_t uid, std::vector<int> used, std::function<int()> run) {
  used.push_back(dir_fd);
  UserLocks::Call call{kind, path_in(dir_fd, name), uid, {}, std::move(used), std::move(run)};
  // A mount over it has locks of its own.
  const auto tree = open_beneath(dir_fd, name, O_PATH | O_NOFOLLOW, 0, RESOLVE_NO_XDEV);
  if (tree) call.locked.push_back(tree->get());
  return locks_.make(call);
}

Status Areas::exchange(int from_fd, const std::string& name, int to_fd, const std::string& path,
                       std::uint32_t uid) {
  const auto tree = open_beneath(from_fd, name, O_PATH | O_NOFOLLOW, 0, RESOLVE_NO_XDEV);
  if (!tree) return tree.error();
  return locks_.make({UserLocks::Kind::rename, path, uid, {from_fd, tree->get()}, {to_fd}, [&] {
                        const char* const text = name.c_str();
                        return ::renameat2(from_fd, text, to_fd, text, RENAME_EXCHANGE) == 0
                                   ? 0
                                   : errno;
                      }});
}

bool Areas::is_empty(const std::string& name, int directory_fd, std::uint32_t uid) {
  const auto has_entries = [directory_fd] {
    alignas(dirent64) char entries[1024];
    for (;;) {
      const long size = ::syscall(SYS_getdents64, directory_fd, entries, sizeof entries);
      if (size <= 0) return size == 0 ? 0 : errno;
      for (long at = 0; at < size;) {
        const auto* const entry = reinterpret_cast<const dirent64*>(entries + at);
        if (::strcmp(entry->d_name, ".") != 0 && ::strcmp(entry->d_name, "..") != 0)
          return ENOTEMPTY;
        at += entry->d_reclen;
      }
    }
  };
  return static_cast<bool>(
      locks_.make({UserLocks::Kind::other, path_of(name), uid, {directory_fd}, {}, has_entries}));
}

Status Areas::move_to_trash(const std::string& name, std::uint32_t uid, std::uint32_t gid) {
  return trash(root_fd_.get(), name, {"", uid, gid});
}

Status Areas::move_to_hold(const std::string& name, const JobKey& key, std::uint32_t uid) {
  return rename_users_tree(root_fd_.get(), name, uid, hold_.get(), to_text(key));
}

Result<std::optional<Fd>> Areas::open_held(const JobKey& key, std::uint32_t uid) const {
  return open_users(hold_.get(), to_text(key), uid, Mounts::refuse);
}

Status Areas::move_held_to_trash(const JobKey& key, std::uint32_t uid, std::uint32_t gid) {
  return trash(hold_.get(), to_text(key), {"", uid, gid});
}

std::vector<TrashEntry> Areas::list_trash(Medium medium) const {
  std::vector<TrashEntry> entries;
  auto directory = DirectoryStream::at(trash_fd(medium));
  while (const auto name = directory.next()) {
    auto entry = parse_trash_name(std::string(*name));
    if (!entry) continue;
    entry->medium = medium;
    entries.push_back(*entry);
  }
  return entries;
}

Result<Fd> Areas::open_trash(const TrashEntry& entry) const {
  return open_beneath(trash_fd(entry.medium), entry.name, k_directory, 0, RESOLVE_NO_XDEV);
}

std::size_t Areas::trees_in_trash() const {
  std::size_t trees = 0;
  for (const auto& [uid, count] : trash_of_) trees += count;
  return trees;
}

Status Areas::remove_trash(const TrashEntry& entry) {
  const int dir_fd = trash_fd(entry.medium);
  const char* const name = entry.name.c_str();
  Status gone = on_users_tree(UserLocks::Kind::other, dir_fd, entry.name, entry.uid, {}, [&] {
    const bool is_gone = ::unlinkat(dir_fd, name, AT_REMOVEDIR) == 0 ||
                         (errno == ENOTDIR && ::unlinkat(dir_fd, name, 0) == 0);
    return is_gone ? 0 : errno;
  });
  if (!gone && gone.error().code != ENOENT) return gone;
  const auto known = trash_of_.find(entry.uid);
  if (known != trash_of_.end() && --known->second == 0) trash_of_.erase(known);
  return {};
}

// The name of the file stays in the trash until it is in the directory, whatever happens.
Status Areas::wrap_trash(TrashEntry& entry) {
  struct stat info {};
  const int dir_fd = trash_fd(entry.medium);
  if (::fstatat(dir_fd, entry.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 ||
      !S_ISREG(info.st_mode) || info.st_size <= k_small_file)
    return {};
  const std::string name = new_trash_name(entry.uid, entry.gid);
  TRY_ASSIGN(const Fd wrap, make_private(dir_fd, name, owner_));
  Status moved = rename_users_tree(dir_fd, entry.name, entry.uid, wrap.get(), "file");
  if (!moved) {
    ::unlinkat(dir_fd, name.c_str(), AT_REMOVEDIR);
    return moved;
  }
  entry.name = name;
  return ::fchown(wrap.get(), entry.uid, entry.gid) == 0 ? Status() : system_error(name);
}

void Areas::open_memory(const std::string& path) {
  memory_path_ = path + "/.nodestage-memory";
  auto passage = open_memory_at(path, owner_);
  auto trash = passage ? make_private(passage->get(), "trash", owner_) : Result<Fd>(Fd());
  if (!passage || !trash) {
    memory_fault_ = passage ? memory_path_ + "/" + trash.error().what : passage.error().what;
    return;
  }
  memory_fault_.clear();
  memory_ = std::move(*passage);
  memory_trash_ = std::move(*trash);
  for (const TrashEntry& entry : list_trash(Medium::memory)) add_trash(entry);
}

Result<Fd> Areas::make_in_memory(const JobKey& key, std::uint32_t uid, std::uint32_t gid) const {
  if (!memory_fault_.empty()) return Error{ENOENT, memory_fault_};
  const std::string name = to_text(key);
  const auto existing = open_users(memory_.get(), name, uid, Mounts::refuse);
  if (existing && *existing) return open_beneath(memory_.get(), name, k_directory);
  // A daemon that died may have made it, and not yet given it to the user.
  ::unlinkat(memory_.get(), name.c_str(), AT_REMOVEDIR);
  if (::mkdirat(memory_.get(), name.c_str(), 0700) != 0) return system_error(memory_path(key));
  TRY_ASSIGN(Fd made, open_at(memory_.get(), name, k_directory));
  if (::fchown(made.get(), uid, gid) != 0) return system_error(memory_path(key));
  return made;
}

Status Areas::move_memory_to_trash(const JobKey& key) {
  const std::string name = to_text(key);
  struct stat info {};
  if (!memory_ || ::fstatat(memory_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0)
    return {};
  return trash(memory_.get(), name, {"", info.st_uid, info.st_gid, Medium::memory});
}

std::vector<JobKey> Areas::jobs_in_memory() const { return keys_in(memory_); }

Result<Fd> Areas::image_area() const { return open_passage(root_fd_.get(), k_images, owner_); }

Status Areas::make_image_mounts(const JobKey& key, std::size_t count) const {
  TRY_ASSIGN(const Fd area, make_passage(root_fd_.get(), k_images, owner_));
  TRY_ASSIGN(const Fd mounts, make_passage(area.get(), to_text(key), owner_));
  for (std::size_t i = 0; i < count; ++i) {
    const std::string name = std::to_string(i);
    if (::mkdirat(mounts.get(), name.c_str(), 0711) != 0 && errno != EEXIST)
      return system_error(image_mount(key, i));
  }
  return {};
}

std::string Areas::image_mount(const JobKey& key, std::size_t index) const {
  return path_of(image_mounts_name(key.job, key.restart)) + "/" + std::to_string(index);
}

// What is mounted there is neither asked nor entered: its directory cannot be removed.
bool Areas::remove_image_mounts(const JobKey& key) const {
  const auto area = image_area();
  if (!area) return true;
  const std::string name = to_text(key);
  if (const auto mounts = open_at(area->get(), name, k_directory)) {
    for (std::size_t i = 0; i < k_max_images; ++i)
      ::unlinkat(mounts->get(), std::to_string(i).c_str(), AT_REMOVEDIR);
  }
  const bool is_gone = ::unlinkat(area->get(), name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT;
  if (is_gone) ::unlinkat(root_fd_.get(), k_images, AT_REMOVEDIR);
  return is_gone;
}

std::vector<JobKey> Areas::jobs_with_images() const {
  const auto area = image_area();
  return area ? keys_in(*area) : std::vector<JobKey>();
}

std::string Areas::held_name(const JobKey& key) { return hold_name() + "/" + to_text(key); }

std::vector<std::string> Areas::places_of_waste() {
  return {".nodestage/trash", ".nodestage-cache"};
}

}  // namespace nodestage
