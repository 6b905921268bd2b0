#include "daemon/worker/out/copy_out.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "common/os/directory_stream.hpp"
#include "common/os/file.hpp"
#include "daemon/worker/tree/below.hpp"

namespace nodestage {
namespace {

// Files from this size on are synced at once, smaller ones while the next ones are written.
constexpr off_t k_sync_bytes = off_t{4} << 20;

bool ends_item(int code) { return code == ENOSPC || code == EDQUOT; }

std::array<timespec, 2> times_of(const struct stat& info) {
  return {timespec{0, UTIME_OMIT}, info.st_mtim};
}

Status bare_error() { return Error{errno, std::strerror(errno)}; }

// The mode of directories that are being filled; the inherited set-group-id bit is added.
constexpr mode_t k_unfinished = 01700;

// Some FUSE and CIFS mounts keep neither modes nor times.
bool is_refused(int code) {
  return code == EPERM || code == EACCES || code == ENOTSUP || code == ENOSYS || code == EINVAL;
}

// As it was made, or as a finished one is marked that a later try fills again.
bool is_unfinished(const struct stat& there, const struct stat& source) {
  const mode_t mode = there.st_mode & 05777;
  const bool is_marked = mode == k_unfinished || mode == ((source.st_mode & 0777) | S_ISVTX);
  return is_marked && there.st_uid == ::geteuid();
}

// Whether the directory looks like a finished copy of `source`.
bool looks_like(const struct stat& there, const struct stat& source) {
  return there.st_uid == ::geteuid() && (there.st_mode & 01777) == (source.st_mode & 01777) &&
         there.st_mtim.tv_sec == source.st_mtim.tv_sec;
}

// Whether the directory is empty, as one is that was just created. One that somebody else put there
// since then is theirs, and keeps its mode.
bool is_empty(int directory) {
  auto listing = DirectoryStream::at(directory);
  return !listing.next() && listing.code() == 0;
}

}  // namespace

// The state of a tree copy, on both sides.
struct CopyOut::Descent {
  TreeWalk walk;
  DirStack targets;
  std::vector<Made> made = {};  // of the targets below the first
};

CopyOut::CopyOut(Fd target, PendingNames names, OutputReport& report)
    : target_(std::move(target)), names_(std::move(names)), report_(report) {
  remove_leftovers(target_.get(), names_);
}

Status CopyOut::contents(Fd directory) {
  Fd target(::fcntl(target_.get(), F_DUPFD_CLOEXEC, 0));
  if (!target) return system_error("dup");
  return tree(std::move(directory), std::move(target), "");
}

Status CopyOut::entry(const SourceEntry& source, const std::string& name) {
  struct stat info {};
  auto handle = open_beneath(source.dir_fd, source.path, O_PATH | source.follow);
  if (!handle || ::fstat(handle->get(), &info) != 0) {
    return check(source.path, system_error("cannot read", handle ? errno : handle.error().code));
  }
  if (S_ISDIR(info.st_mode)) return directory(source, name, info);
  return leaf(source, target_.get(), name, name, info);
}

Status CopyOut::directory(const SourceEntry& source, const std::string& name,
                          const struct stat& info) {
  auto from = open_beneath(source.dir_fd, source.path, O_PATH | O_DIRECTORY | source.follow);
  if (!from) return check(source.path, from.error());
  Fd to;
  const auto made = make_directory(target_.get(), name, info, to);
  if (!made) return check(name, made.error());
  remove_leftovers(to.get(), names_);
  const Fd held(::fcntl(to.get(), F_DUPFD_CLOEXEC, 0));
  if (!held) return system_error("dup");
  TRY(tree(std::move(*from), std::move(to), name + "/"));
  return check(name, end_directory(held.get(), *made, info));
}

// Opens the directory `name` in target_fd and stores it in `fd`; creates it if it does not exist.
Result<CopyOut::Made> CopyOut::make_directory(int target_fd, const std::string& name,
                                              const struct stat& source, Fd& fd) {
  const bool is_new = ::mkdirat(target_fd, name.c_str(), 0700) == 0;
  if (!is_new && errno != EEXIST) return system_error("cannot make the directory");
  auto opened = open_directory_at(target_fd, name);
  if (!opened) {
    const int code = opened.error().code;
    if (code == ENOTDIR || code == ELOOP) {
      return Error{code, "is a directory here and something else in the target"};
    }
    return opened.error();
  }
  struct stat there {};
  if (::fstat(opened->get(), &there) != 0) return system_error("cannot look at the directory");
  const bool is_ours =
      is_new ? is_empty(opened->get()) : is_unfinished(there, source) || looks_like(there, source);
  fd = std::move(*opened);
  if (!is_ours) return Made::before;
  // A finished directory may deny access to its owner. One that does not stays open to its readers.
  const bool is_closed = is_new || (there.st_mode & 0700) != 0700;
  const mode_t mode =
      is_closed ? k_unfinished | (there.st_mode & S_ISGID) : (there.st_mode & 03777) | S_ISVTX;
  if (mode != (there.st_mode & 07777)) static_cast<void>(change_mode(fd.get(), mode));
  return Made::here;
}

// Uses the descriptor that has been open since the directory was created (O_PATH): others who can
// write to the target may have put anything under its name meanwhile. The inherited set-group-id
// bit stays: it gives new files the project's group.
Status CopyOut::end_directory(int fd, Made made, const struct stat& info) {
  if (made == Made::before) return syncs_.add_directory(fd, names_);
  // The mode may deny access to the directory's owner.
  Fd readable(::openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat now {};
  if (!readable || ::fstat(fd, &now) != 0) return bare_error();
  const Status changed = change_mode(fd, (info.st_mode & 01777) | (now.st_mode & S_ISGID));
  TRY(keep("mode", changed ? 0 : changed.error().code));
  TRY(keep("time", ::utimensat(fd, "", times_of(info).data(), AT_EMPTY_PATH) == 0 ? 0 : errno));
  syncs_.add(std::move(readable));
  return {};
}

// A refusal by the file system becomes a note and does not stop the copy.
Status CopyOut::keep(const char* what, int code) {
  if (code == 0) return {};
  if (!is_refused(code)) return system_error(std::string("cannot set the ") + what, code);
  if (!std::exchange(refuses_, true))
    report_.add_note(std::string("the target does not keep every mode and time: ") +
                     std::strerror(code));
  return {};
}

Status CopyOut::tree(Fd source, Fd target, const std::string& prefix) {
  auto walk = TreeWalk::begin(std::move(source), WalkFor::reading);
  if (!walk) return check(prefix.empty() ? "." : prefix, walk.error());
  Descent at{std::move(*walk), DirStack(std::move(target))};
  for (;;) {
    TRY_ASSIGN(const auto next, at.walk.next());
    if (!next) return {};
    TRY(step(at, *next, prefix + at.walk.path(*next)));
  }
}

Status CopyOut::step(Descent& at, const WalkStep& step, const std::string& path) {
  switch (step.kind) {
    case WalkStep::Kind::leaf: {
      const SourceEntry source{step.dir_fd, step.name, O_NOFOLLOW};
      return leaf(source, at.targets.top(), step.name, path, step.info);
    }
    case WalkStep::Kind::directory: {
      if (is_target(step.info)) {
        TRY(at.walk.skip());
        return check(path, Error{ELOOP, "is the target itself"});
      }
      Fd child;
      const auto made = make_directory(at.targets.top(), step.name, step.info, child);
      if (!made) {
        TRY(at.walk.skip());
        return check(path, made.error());
      }
      remove_leftovers(child.get(), names_);
      at.made.push_back(*made);
      return at.targets.push(std::move(child));
    }
    case WalkStep::Kind::directory_end: {
      TRY_ASSIGN(const Fd target, at.targets.pop());
      const Made made = at.made.back();
      at.made.pop_back();
      return check(path, end_directory(target.get(), made, step.info));
    }
    case WalkStep::Kind::fault:
      break;
  }
  return check(path, step.fault);
}

Status CopyOut::leaf(const SourceEntry& source, int target_fd, const std::string& name,
                     const std::string& path, const struct stat& info) {
  if (!S_ISREG(info.st_mode) && !S_ISLNK(info.st_mode)) {
    report_.add_special();
    return {};
  }
  Status copied;
  if (S_ISLNK(info.st_mode)) {
    copied = link(source, target_fd, name, info);
  } else {
    const auto first = links_.first(info, path);
    if (!first || !hard_link(*first, target_fd, name)) {
      copied = file(source, target_fd, name, info);
      if (!copied) links_.forget(info);
    }
  }
  if (!copied) return check(path, copied);
  report_.add_file();
  return {};
}

Status CopyOut::file(const SourceEntry& source, int target_fd, const std::string& name,
                     const struct stat& info) {
  struct stat there {};
  if (::fstatat(target_fd, name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 &&
      S_ISDIR(there.st_mode)) {
    return Error{EISDIR, "is a file here and a directory in the target"};
  }
  TRY_ASSIGN(const Fd from, open_for_reading(source, info));
  const PendingName pending(target_fd, names_);
  TRY_ASSIGN(Fd to, pending.create_file(0600));
  TRY(copy_data(from.get(), to.get(), static_cast<std::uint64_t>(info.st_size),
                [this](std::uint64_t bytes) { report_.add_bytes(bytes); }));
  TRY(keep("mode", ::fchmod(to.get(), info.st_mode & 0777) == 0 ? 0 : errno));
  TRY(keep("time", ::futimens(to.get(), times_of(info).data()) == 0 ? 0 : errno));
  if (info.st_size >= k_sync_bytes && ::fsync(to.get()) != 0) return system_error("cannot write");
  struct stat copy {};
  if (::fstat(to.get(), &copy) == 0) links_.copied(info, copy);
  Fd written;
  if (info.st_size < k_sync_bytes) written = Fd(::fcntl(to.get(), F_DUPFD_CLOEXEC, 0));
  TRY(close_checked(std::move(to)));
  TRY(pending.commit(name));
  if (written) syncs_.add(std::move(written));
  return {};
}

Status CopyOut::link(const SourceEntry& source, int target_fd, const std::string& name,
                     const struct stat& info) const {
  TRY_ASSIGN(const std::string text, read_link(source));
  const PendingName pending(target_fd, names_);
  if (::symlinkat(text.c_str(), target_fd, pending.c_str()) != 0) {
    return system_error("cannot make a link in the target");
  }
  // Some file systems keep no times of links.
  static_cast<void>(
      ::utimensat(target_fd, pending.c_str(), times_of(info).data(), AT_SYMLINK_NOFOLLOW));
  return pending.commit(name);
}

// Opens no link on the path, and links only to the file that was written there.
Status CopyOut::hard_link(const HardLinks::First& first, int target_fd,
                          const std::string& name) const {
  const SplitPath split = split_path(first.name);
  TRY_ASSIGN(const Fd parent, open_directory_below(target_.get(), split.parent));
  const PendingName pending(target_fd, names_);
  struct stat made {};
  if (::linkat(parent.get(), std::string(split.name).c_str(), target_fd, pending.c_str(), 0) != 0 ||
      ::fstatat(target_fd, pending.c_str(), &made, AT_SYMLINK_NOFOLLOW) != 0) {
    return system_error("link");
  }
  if (HardLinks::id(made) != first.copy) return Error{ESTALE, "another file is there now"};
  return pending.commit(name);
}

// Whether this is the target: the source may contain it, and a copy into it would never end.
bool CopyOut::is_target(const struct stat& info) const {
  struct stat target {};
  return ::fstat(target_.get(), &target) == 0 && target.st_dev == info.st_dev &&
         target.st_ino == info.st_ino;
}

// Reports a fault of one entry; returns whether the item can go on.
Status CopyOut::check(const std::string& path, const Status& status) {
  if (status) return {};
  report_.add_fault(path, status.error());
  if (!ends_item(status.error().code)) return {};
  return Error{status.error().code, "the rest was not tried"};
}

Status CopyOut::sync() {
  TRY(syncs_.add_directory(target_.get(), names_));
  return syncs_.finish();
}

}  // namespace nodestage
