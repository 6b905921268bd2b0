#include "daemon/worker/tree/tree_walk.hpp"

#include <linux/openat2.h>

#include <algorithm>

#include "common/os/file.hpp"

namespace nodestage {
namespace {

// Of each directory in a walk for removing, however deep it is.
constexpr std::size_t k_least_names = 16;

}  // namespace

Result<TreeWalk> TreeWalk::begin(Fd root, WalkFor purpose, std::size_t name_bytes) {
  TreeWalk walk(DirStack(std::move(root)), purpose, name_bytes);
  const Fd again(::fcntl(walk.dirs_.top(), F_DUPFD_CLOEXEC, 0));
  if (!again) return system_error("dup");
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
