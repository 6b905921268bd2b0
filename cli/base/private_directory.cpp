#include "cli/base/private_directory.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/os/directory_stream.hpp"
#include "common/os/file.hpp"
#include "common/request/option_parts.hpp"
#include "common/request/submission.hpp"
#include "common/text/human.hpp"
#include "daemon/worker/tree/remove_tree.hpp"

namespace nodestage {
namespace {

struct PrivateName {
  PrivateKind kind;
  std::string_view prefix;
};
constexpr PrivateName k_private_names[] = {
    {PrivateKind::job, "nodestage-run-"},
    {PrivateKind::record, "nodestage-push-"},
    {PrivateKind::memory, "nodestage-memory-"},
};

std::string chosen(const std::string& parent) {
  if (!parent.empty()) return parent;
  const char* variable = std::getenv("TMPDIR");
  return variable != nullptr && *variable != '\0' ? variable : "/tmp";
}

Error not_of_a_run(const std::string& path) {
  return {EPERM, printable(path) + ": it is not a directory of `nodestage run` of yours"};
}

// Opens it, but not through a link nor into a mount.
Result<Fd> open_here(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return not_of_a_run(path);
  TRY_ASSIGN(const Fd parent,
             open_at(AT_FDCWD, slash == 0 ? "/" : path.substr(0, slash), O_PATH | O_DIRECTORY));
  auto fd = open_beneath(parent.get(), path.substr(slash + 1), O_RDONLY | O_DIRECTORY | O_NOFOLLOW,
                         0, RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
  if (!fd) return system_error(path, fd.error().code);
  return fd;
}

Status check_private(int directory_fd, const std::string& path) {
  struct stat found {};
  if (::fstat(directory_fd, &found) != 0) return system_error(path);
  constexpr unsigned k_others = 077;
  const bool is_private = found.st_uid == ::geteuid() && (found.st_mode & k_others) == 0;
  return is_private ? Status() : not_of_a_run(path);
}

// Whoever may rename in the parent can have put another one of the caller's there.
Status check_empty(int directory_fd, const std::string& path) {
  auto names = DirectoryStream::at(directory_fd, ".");
  return names.next() ? Error{EEXIST, printable(path) + ": another directory was put in its place"}
                      : Status();
}

enum class Locked {
  yes,
  no,  // the file system has no locks of directories
};

// EWOULDBLOCK if another process has the lock.
Result<Locked> lock_directory(int directory_fd) {
  if (::flock(directory_fd, LOCK_EX | LOCK_NB) == 0) return Locked::yes;
  if (errno == EWOULDBLOCK) return Error{EWOULDBLOCK, "a process uses the directory"};
  return Locked::no;
}

// Before it was locked, another run may have taken it for one that was left, and removed it.
bool is_there(int directory_fd, const std::string& path) {
  struct stat own {};
  struct stat there {};
  return ::fstat(directory_fd, &own) == 0 && ::lstat(path.c_str(), &there) == 0 &&
         own.st_ino == there.st_ino && own.st_dev == there.st_dev;
}

Result<Fd> open_and_lock(const std::string& path) {
  TRY_ASSIGN(Fd fd, open_private(path));
  TRY(check_empty(fd.get(), path));
  TRY(lock_directory(fd.get()));
  if (!is_there(fd.get(), path)) return Error{EWOULDBLOCK, printable(path) + ": was removed"};
  return fd;
}

// Opens and locks one that was created just now. EWOULDBLOCK: another run was faster.
Result<Fd> open_made(const std::string& path) {
  auto fd = open_and_lock(path);
  if (!fd) ::rmdir(path.c_str());
  return fd;
}

Error not_made(const std::string& path) {
  return system_error("cannot create a directory in " + printable(path.substr(0, path.rfind('/'))));
}

}  // namespace

std::string_view private_prefix(PrivateKind kind) {
  const auto* const name =
      std::find_if(std::begin(k_private_names), std::end(k_private_names),
                   [kind](const PrivateName& each) { return each.kind == kind; });
  return name->prefix;
}

std::optional<PrivateKind> private_kind(std::string_view name) {
  for (const PrivateName& each : k_private_names) {
    if (name.starts_with(each.prefix)) return each.kind;
  }
  return {};
}

std::string path_beside(PrivateKind kind, const std::string& path) {
  const std::size_t name = path.rfind('/') + 1;
  const std::size_t end = path.rfind('-') + 1;
  return path.substr(0, name).append(private_prefix(kind)) + path.substr(std::max(name, end));
}

Result<std::string> private_parent(const std::string& wanted) {
  TRY_ASSIGN(std::string path, absolute_path(chosen(wanted), submit_place()));
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

Result<Fd> open_private(const std::string& path) {
  TRY_ASSIGN(Fd fd, open_here(path));
  TRY(check_private(fd.get(), path));
  return fd;
}

Result<std::string> mark_of(int directory_fd) {
  struct statx found {};
  if (::statx(directory_fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &found) != 0)
    return system_error("statx");
  std::string mark;
  for (const std::uint64_t part :
       {std::uint64_t{found.stx_dev_major}, std::uint64_t{found.stx_dev_minor},
        std::uint64_t{found.stx_ino}, static_cast<std::uint64_t>(found.stx_btime.tv_sec),
        std::uint64_t{found.stx_btime.tv_nsec}})
    mark += std::to_string(part) + " ";
  return mark;
}

Result<PrivateDirectory> PrivateDirectory::make(PrivateKind kind, const std::string& parent) {
  constexpr int k_name_tries = 100;
  TRY_ASSIGN(const std::string place, private_parent(parent));
  for (int i = 0; i < k_name_tries; ++i) {
    std::string path = (place + "/").append(private_prefix(kind)) + "XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) return not_made(path);
    auto fd = open_made(path);
    if (fd) return PrivateDirectory(path, std::move(*fd));
    if (fd.error().code != EWOULDBLOCK) return fd.error();
  }
  return Error{EBUSY, printable(place) + ": no directory can be locked there"};
}

Result<PrivateDirectory> PrivateDirectory::make_beside(PrivateKind kind,
                                                       const PrivateDirectory& other) {
  const std::string path = path_beside(kind, other.path());
  if (::mkdir(path.c_str(), 0700) != 0) return not_made(path);
  TRY_ASSIGN(Fd fd, open_made(path));
  return PrivateDirectory(path, std::move(fd));
}

Result<PrivateDirectory> PrivateDirectory::adopt(const std::string& path, const std::string& mark) {
  TRY_ASSIGN(Fd fd, open_here(path));
  TRY_ASSIGN(const std::string found, mark_of(fd.get()));
  if (found != mark) return not_of_a_run(path);
  PrivateDirectory directory(path, std::move(fd));
  directory.keep();
  return directory;
}

Result<PrivateDirectory> PrivateDirectory::adopt_unlocked(const std::string& path) {
  TRY_ASSIGN(Fd fd, open_private(path));
  TRY_ASSIGN(const Locked locked, lock_directory(fd.get()));
  if (locked == Locked::no) return Error{ENOLCK, printable(path) + ": cannot be locked"};
  PrivateDirectory directory(path, std::move(fd));
  directory.keep();
  return directory;
}

PrivateDirectory::PrivateDirectory(PrivateDirectory&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::move(other.fd_)),
      is_ours_(std::exchange(other.is_ours_, false)) {}

PrivateDirectory::~PrivateDirectory() {
  if (is_ours_) static_cast<void>(!remove());
}

Status PrivateDirectory::remove(const std::function<bool()>& must_stop) {
  is_ours_ = false;
  TRY(remove_tree_contents(fd_.get(), must_stop));
  if (::rmdir(path_.c_str()) != 0 && errno != ENOENT) return system_error(path_);
  return {};
}

}  // namespace nodestage
