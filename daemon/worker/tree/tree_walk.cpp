#include "daemon/worker/tree/tree_walk.hpp"

#include <dirent.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace nodestage {
namespace {

constexpr std::size_t k_open_levels = 32;

// Larger than readdir's, for file systems that answer each call over a network.
constexpr std::size_t k_block_bytes = std::size_t{128} * 1024;

// Returns false at the end.
Result<bool> read_block(int fd, std::vector<char>& block, std::vector<ListedName>& names) {
  const long size = ::syscall(SYS_getdents64, fd, block.data(), block.size());
  if (size < 0) return Error{errno, std::strerror(errno)};
  for (std::size_t at = 0; at < static_cast<std::size_t>(size);) {
    const auto* entry = reinterpret_cast<const dirent64*>(block.data() + at);
    at += entry->d_reclen;
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    names.push_back({entry->d_ino, entry->d_type, std::string(name)});
  }
  return size > 0;
}

// Of each directory in a walk for removing, however deep it is.
constexpr std::size_t k_least_names = 16;

}  // namespace

Result<Fd> open_directory_at(int dir_fd, const std::string& name, unsigned long resolve) {
  auto fd = open_beneath(dir_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0, resolve);
  if (!fd) return Error{fd.error().code, std::strerror(fd.error().code)};
  return fd;
}

Result<Fd> duplicate(int fd) {
  Fd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy) return system_error("dup");
  return copy;
}

Status change_mode(int path_fd, mode_t mode) {
  constexpr long k_fchmodat2 = 452;  // Linux 6.6; unknown to older headers
  if (::syscall(k_fchmodat2, path_fd, "", mode, AT_EMPTY_PATH) == 0) return {};
  const std::string link = "/proc/self/fd/" + std::to_string(path_fd);
  if (::chmod(link.c_str(), mode) == 0) return {};
  return system_error("chmod");
}

Status DirStack::push(Fd child) {
  levels_.push_back({std::move(child), 0, 0});
  if (levels_.size() <= k_open_levels) return {};
  Level& far = levels_[levels_.size() - 1 - k_open_levels];
  if (!far.fd) return {};
  struct stat info {};
  if (::fstat(far.fd.get(), &info) != 0) return system_error("fstat");
  far.device = info.st_dev;
  far.inode = info.st_ino;
  far.fd.reset();
  return {};
}

Result<Fd> DirStack::pop() {
  TRY(reopen(levels_.size() - 2));
  Fd left = std::move(levels_.back().fd);
  levels_.pop_back();
  return left;
}

Status DirStack::reopen(std::size_t level) {
  Level& wanted = levels_[level];
  if (wanted.fd) return {};
  TRY_ASSIGN(Fd fd, open_at(levels_[level + 1].fd.get(), "..", O_PATH | O_DIRECTORY));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return system_error("fstat");
  if (info.st_dev != wanted.device || info.st_ino != wanted.inode) {
    return Error{ESTALE, "a directory was moved while it was read"};
  }
  wanted.fd = std::move(fd);
  return {};
}

Result<std::vector<ListedName>> list_directory(int fd, std::size_t count) {
  thread_local std::vector<char> block(k_block_bytes);
  std::vector<ListedName> names;
  while (names.size() < count) {
    TRY_ASSIGN(const bool is_more, read_block(fd, block, names));
    if (!is_more) break;
  }
  return names;
}

Result<TreeWalk> TreeWalk::begin(Fd root, WalkFor purpose, std::size_t name_bytes) {
  TreeWalk walk(DirStack(std::move(root)), purpose, name_bytes);
  TRY_ASSIGN(const Fd again, duplicate(walk.dirs_.top()));
  TRY_ASSIGN(Level level, walk.enter(again.get()));
  walk.levels_.push_back(std::move(level));
  return walk;
}

TreeWalk::~TreeWalk() {
  while (purpose_ == WalkFor::reading && !levels_.empty() && leave()) {
  }
}

// Returns the owner's rights that the walk adds to each directory.
mode_t TreeWalk::needed_mode() const {
  if (purpose_ == WalkFor::looking) return 0;
  return purpose_ == WalkFor::reading ? 0500 : 0700;
}

Result<TreeWalk::Level> TreeWalk::enter(int dir_fd) {
  Level level{};
  if (::fstat(dir_fd, &level.info) != 0) return system_error("fstat");
  const mode_t mode = level.info.st_mode & 07777;
  const mode_t needed = needed_mode();
  // If this is refused (another user's directory), the group's rights or a capability may do.
  if ((mode & needed) != needed && change_mode(dir_fd, mode | needed)) level.mode_back = mode;

  TRY(read_names(dir_fd, level));
  return level;
}

Status TreeWalk::read_names(int dir_fd, Level& level) {
  auto stream = DirectoryStream::at(dir_fd);
  while (const auto name = stream.next()) {
    level.held = level.names.size() + level.starts.size() * sizeof(std::size_t);
    if (purpose_ == WalkFor::removing && held_ + level.held >= name_bytes_ &&
        level.starts.size() >= k_least_names) {
      level.has_more = true;
      break;
    }
    level.starts.push_back(level.names.size());
    level.names.append(*name).push_back('\0');
  }
  if (stream.code() != 0) return Error{stream.code(), std::strerror(stream.code())};
  level.held = level.names.size() + level.starts.size() * sizeof(std::size_t);
  held_ += level.held;
  if (purpose_ != WalkFor::removing) {
    const char* names = level.names.data();
    std::sort(level.starts.begin(), level.starts.end(), [names](std::size_t a, std::size_t b) {
      return std::strcmp(names + a, names + b) > 0;
    });
  }
  return {};
}

// From the directory's start, where the names were that are gone now. The same names again: none
// of them could be removed, and the walk would not end.
Status TreeWalk::read_more(Level& level) {
  const auto before = std::hash<std::string>()(level.names);
  forget_names(level);
  TRY(read_names(dirs_.top(), level));
  if (std::hash<std::string>()(level.names) == before) forget_names(level);
  return {};
}

void TreeWalk::forget_names(Level& level) {
  held_ -= level.held;
  level.held = 0;
  level.names.clear();
  level.starts.clear();
  level.has_more = false;
}

Result<std::optional<WalkStep>> TreeWalk::next() {
  if (levels_.empty()) return std::optional<WalkStep>();
  Level& level = levels_.back();
  if (level.starts.empty() && level.has_more) TRY(read_more(level));
  if (!level.starts.empty()) {
    std::string name = level.names.c_str() + level.starts.back();
    level.starts.pop_back();
    return std::optional(examine(std::move(name)));
  }
  WalkStep step{WalkStep::Kind::directory_end, -1, level.name, level.info, {}};
  TRY(leave());
  if (levels_.empty()) return std::optional<WalkStep>();
  step.dir_fd = dirs_.top();
  return std::optional(std::move(step));
}

WalkStep TreeWalk::examine(std::string name) {
  WalkStep step{WalkStep::Kind::leaf, dirs_.top(), std::move(name), {}, {}};
  Status status;
  if (::fstatat(step.dir_fd, step.name.c_str(), &step.info, AT_SYMLINK_NOFOLLOW) != 0) {
    status = Error{errno, std::strerror(errno)};
  } else if (S_ISDIR(step.info.st_mode)) {
    step.kind = WalkStep::Kind::directory;
    status = descend(step);
  }
  if (!status) {
    step.kind = WalkStep::Kind::fault;
    step.fault = std::move(status.error());
  }
  return step;
}

Status TreeWalk::descend(WalkStep& step) {
  TRY_ASSIGN(Fd child, open_directory_at(step.dir_fd, step.name,
                                         purpose_ == WalkFor::removing ? RESOLVE_NO_XDEV : 0UL));
  TRY_ASSIGN(Level level, enter(child.get()));
  level.name = step.name;
  TRY(dirs_.push(std::move(child)));
  levels_.push_back(std::move(level));
  return {};
}

Status TreeWalk::leave() {
  const Level& level = levels_.back();
  held_ -= level.held;
  struct stat now {};
  // Best effort: the next attempt works with either mode. What another process has set stays.
  if (purpose_ == WalkFor::reading && level.mode_back && ::fstat(dirs_.top(), &now) == 0 &&
      (now.st_mode & 07777) == (*level.mode_back | needed_mode()))
    static_cast<void>(change_mode(dirs_.top(), *level.mode_back));
  levels_.pop_back();
  if (levels_.empty()) return {};
  TRY_ASSIGN(const Fd left, dirs_.pop());
  return {};
}

Status TreeWalk::skip() { return leave(); }

bool TreeWalk::is_in(const struct stat& directory) const {
  return std::any_of(levels_.begin(), levels_.end(), [&directory](const Level& level) {
    return level.info.st_dev == directory.st_dev && level.info.st_ino == directory.st_ino;
  });
}

std::string TreeWalk::path(const WalkStep& step) const {
  std::string path;
  for (std::size_t i = 1; i < levels_.size(); ++i) path.append(levels_[i].name).push_back('/');
  if (step.kind == WalkStep::Kind::directory) {
    path.pop_back();
    return path;
  }
  return path + step.name;
}

}  // namespace nodestage
