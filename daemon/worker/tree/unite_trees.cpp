#include "daemon/worker/tree/unite_trees.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <string_view>

#include "common/text/encodings.hpp"
#include "common/text/human.hpp"
#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/tree/file_data.hpp"

namespace nodestage {
namespace {

constexpr mode_t k_owner_rights = 0700;

Result<struct stat> look_at_open(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return system_error("fstat");
  return info;
}

// Nothing can be renamed in a directory without its owner's rights, nor can it move itself.
Status give_rights(int fd, mode_t mode) {
  if ((mode & k_owner_rights) == k_owner_rights) return {};
  return change_mode(fd, (mode & 07777) | k_owner_rights);
}

// Of a directory, in which entries were moved.
Status set_attributes(int fd, const struct stat& as) {
  const std::array<timespec, 2> times{as.st_atim, as.st_mtim};
  TRY_ASSIGN(const Fd directory, open_at(fd, ".", O_RDONLY | O_DIRECTORY));
  if (::futimens(directory.get(), times.data()) != 0) return system_error("futimens");
  return change_mode(fd, as.st_mode & 07777);
}

// Opens a file that its owner, this process's user, may not read.
Result<Fd> open_readable(int dir_fd, const std::string& name) {
  constexpr int k_flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
  auto fd = open_at(dir_fd, name, k_flags);
  if (fd || fd.error().code != EACCES) return fd;
  TRY_ASSIGN(const Fd path, open_at(dir_fd, name, O_PATH | O_NOFOLLOW));
  TRY_ASSIGN(const struct stat info, look_at_open(path.get()));
  TRY(change_mode(path.get(), (info.st_mode & 07777) | 0400));
  fd = open_at(dir_fd, name, k_flags);
  TRY(change_mode(path.get(), info.st_mode & 07777));
  return fd;
}

void subtract(std::atomic<std::uint64_t>& from, std::uint64_t amount) {
  from -= std::min<std::uint64_t>(from, amount);
}

}  // namespace

Status UnitedTree::add(Fd from, std::string name, bool is_file) {
  names_.push_back(std::move(name));
  TRY_ASSIGN(const struct stat before, look_at_open(root_.get()));
  TRY_ASSIGN(const struct stat later, look_at_open(from.get()));
  TRY(give_rights(root_.get(), before.st_mode));
  TRY_ASSIGN(Fd root, duplicate(root_.get()));
  DirStack dirs(std::move(root));
  dirs_ = &dirs;
  hashes_.assign(1, fnv1a(""));
  TRY_ASSIGN(TreeWalk walk, TreeWalk::begin(std::move(from), WalkFor::removing));
  for (;;) {
    TRY(meter_.check());
    TRY_ASSIGN(const auto step, walk.next());
    if (!step) break;
    const Status taken = take(walk, *step);
    if (taken) continue;
    const bool is_said = is_stopped(taken.error()) || !taken.error().advice.empty();
    return is_said ? taken.error() : space_.explain(step->name, taken.error().code);
  }
  return set_attributes(root_.get(), is_file ? before : later);
}

Status UnitedTree::take(TreeWalk& walk, const WalkStep& step) {
  switch (step.kind) {
    case WalkStep::Kind::fault:
      return step.fault;
    case WalkStep::Kind::directory:
      return take_directory(walk, step);
    case WalkStep::Kind::directory_end:
      return leave(step);
    case WalkStep::Kind::leaf:
      break;
  }
  struct stat there {};
  if (::fstatat(dirs_->top(), step.name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0)
    return take_one_of(walk, step, there);
  return errno == ENOENT ? move(step) : system_error(step.name);
}

Status UnitedTree::take_directory(TreeWalk& walk, const WalkStep& step) {
  struct stat there {};
  if (::fstatat(dirs_->top(), step.name.c_str(), &there, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno != ENOENT) return system_error(step.name);
    TRY(walk.skip());
    TRY(move(step));
    if ((step.info.st_mode & k_owner_rights) == k_owner_rights) return {};
    TRY_ASSIGN(const Fd moved, open_directory_at(dirs_->top(), step.name));
    return change_mode(moved.get(), step.info.st_mode & 07777);
  }
  if (!S_ISDIR(there.st_mode)) return mixed(walk.path(step));
  TRY_ASSIGN(Fd directory, open_directory_at(dirs_->top(), step.name));
  TRY(give_rights(directory.get(), there.st_mode));
  hashes_.push_back(hash_of(step.name));
  return dirs_->push(std::move(directory));
}

Status UnitedTree::leave(const WalkStep& step) {
  if (::unlinkat(step.dir_fd, step.name.c_str(), AT_REMOVEDIR) != 0) return system_error(step.name);
  hashes_.pop_back();
  TRY_ASSIGN(const Fd left, dirs_->pop());
  return set_attributes(left.get(), step.info);
}

// Replaces what is there, unless that is a directory.
Status UnitedTree::move(const WalkStep& step) {
  if (::renameat(step.dir_fd, step.name.c_str(), dirs_->top(), step.name.c_str()) != 0)
    return system_error(step.name);
  const auto source = static_cast<std::uint32_t>(names_.size() - 1);
  const std::uint64_t hash = hash_of(step.name);
  if (origins_.size() < k_most_origins || origins_.contains(hash)) origins_[hash] = source;
  return {};
}

Status UnitedTree::take_one_of(const TreeWalk& walk, const WalkStep& step,
                               const struct stat& there) {
  if (S_ISDIR(there.st_mode)) return mixed(walk.path(step));
  TRY_ASSIGN(const bool equal, is_equal(step, there));
  if (different_ == Different::last_taken) {  // with its mode and time, also if it is equal
    ++(equal ? equal_ : replaced_);
    discount(there);
    return move(step);
  }
  if (!equal)
    return conflict(walk.path(step), "with different contents",
                    "Take that of the last source with merge=last, or leave it out with exclude=");
  ++equal_;
  discount(step.info);
  if (::unlinkat(step.dir_fd, step.name.c_str(), 0) != 0) return system_error(step.name);
  return {};
}

Result<bool> UnitedTree::is_equal(const WalkStep& step, const struct stat& there) const {
  if ((step.info.st_mode & S_IFMT) != (there.st_mode & S_IFMT)) return false;
  if (S_ISLNK(there.st_mode))
    return link_text(step.dir_fd, step.name) == link_text(dirs_->top(), step.name);
  if (!S_ISREG(there.st_mode)) return step.info.st_rdev == there.st_rdev;
  if (step.info.st_size != there.st_size) return false;
  return has_equal_bytes(step, static_cast<std::uint64_t>(there.st_size));
}

Result<bool> UnitedTree::has_equal_bytes(const WalkStep& step, std::uint64_t size) const {
  if (size == 0) return true;
  TRY_ASSIGN(const Fd one, open_readable(step.dir_fd, step.name));
  TRY_ASSIGN(const Fd other, open_readable(dirs_->top(), step.name));
  return have_same_bytes(one.get(), other.get(), size, &meter_);
}

// The bytes of a file that has other names stay.
void UnitedTree::discount(const struct stat& dropped) {
  subtract(meter_.files, 1);
  if (S_ISREG(dropped.st_mode) && dropped.st_nlink == 1)
    subtract(meter_.bytes_written, static_cast<std::uint64_t>(dropped.st_size));
}

std::uint64_t UnitedTree::hash_of(const std::string& name) const {
  return fnv1a(name, fnv1a("/", hashes_.back()));
}

// The last source that has moved the path, or a directory above it.
std::string UnitedTree::earlier_with(const std::string& path) const {
  std::uint32_t source = 0;
  std::uint64_t hash = fnv1a("");
  std::string_view rest = path;
  while (!rest.empty()) {
    const std::string_view name = rest.substr(0, rest.find('/'));
    rest.remove_prefix(std::min(name.size() + 1, rest.size()));
    hash = fnv1a(name, fnv1a("/", hash));
    const auto found = origins_.find(hash);
    if (found != origins_.end()) source = std::max(source, found->second);
  }
  const bool is_known = source != 0 || origins_.size() < k_most_origins;
  return is_known ? shown(names_[source]) : "a source before it";
}

Error UnitedTree::conflict(const std::string& path, const char* how, const char* advice) const {
  return fault(
      EEXIST,
      shown(path) + " is in " + shown(names_.back()) + " and in " + earlier_with(path) + ", " + how,
      advice);
}

Error UnitedTree::mixed(const std::string& path) const {
  return conflict(path, "once as a directory and once as a file or link",
                  "Leave it out with exclude=, or give one source another destination: "
                  "--stage-dataset=SOURCE:DEST");
}

std::string UnitedTree::note() const {
  std::string text;
  if (equal_ > 0)
    text = counted(equal_, "file was", "files were") + " in two of them, with equal contents";
  if (replaced_ > 0)
    add_note(text,
             counted(replaced_, "file is", "files are") + " that of a later source (merge=last)");
  return text;
}

}  // namespace nodestage
