#include "daemon/worker/copy_tree.hpp"

#include <fcntl.h>

#include <climits>

#include "common/file.hpp"
#include "daemon/worker/below.hpp"

namespace nodestage {
namespace {

Error unreadable(const std::string& path, int code) {
  return fault(
      code, shown(path) + ": cannot be read: " + std::strerror(code),
      code == ENOENT || code == ESTALE
          ? "Let nothing write to a dataset while a job starts with it"
          : "The job's user must be able to read all of it, or leave it out with exclude=");
}

}  // namespace

Status CopyTree::run(Fd from) {
  struct stat info {};
  if (::fstat(from.get(), &info) != 0) return unreadable(path_, errno);
  auto walk = TreeWalk::begin(std::move(from), WalkFor::copying);
  if (!walk) return unreadable(path_, walk.error().code);
  for (;;) {
    TRY(way_.meter.check());
    auto next = walk->next();
    if (!next) return unreadable(path_, next.error().code);
    if (!*next) break;
    TRY(step(*walk, **next));
  }
  return finish_directory(root_, info, "");
}

Status CopyTree::step(TreeWalk& walk, const WalkStep& step) {
  const std::string path = walk.path(step);
  switch (step.kind) {
    case WalkStep::Kind::directory:
      return enter(walk, step);
    case WalkStep::Kind::directory_end:
      return leave(step);
    case WalkStep::Kind::leaf:
      return way_.filter.wants(path) ? leaf(step, path) : Status();
    case WalkStep::Kind::fault:
      break;
  }
  if (way_.filter.excludes(path)) return {};
  return unreadable(full(path), step.fault.code);
}

// With include globs a directory is made when something in it is wanted.
Status CopyTree::enter(TreeWalk& walk, const WalkStep& step) {
  const std::string path = walk.path(step);
  if (way_.filter.excludes(path)) return walk.skip();
  entered_.push_back(step.name);
  return way_.filter.wants(path) ? make_directories() : Status();
}

Status CopyTree::make_directories() {
  while (to_.depth() <= entered_.size()) {
    const std::string& name = entered_[to_.depth() - 1];
    TRY(way_.space.will_make());
    if (::mkdirat(to_.top(), name.c_str(), 0700) != 0) return way_.space.explain(name, errno);
    auto child = open_directory_at(to_.top(), name);
    if (!child) return way_.space.explain(name, child.error().code);
    TRY(to_.push(std::move(*child)));
  }
  return {};
}

// The mode comes last: without x no way would lead back to the parent.
Status CopyTree::leave(const WalkStep& step) {
  const bool made = to_.depth() > entered_.size();
  entered_.pop_back();
  if (!made) return {};
  const Fd directory(::fcntl(to_.top(), F_DUPFD_CLOEXEC, 0));
  if (!directory) return way_.space.explain(step.name, errno);
  TRY(to_.pop());
  return finish_directory(directory.get(), step.info, step.name);
}

Status CopyTree::finish_directory(int fd, const struct stat& info, const std::string& path) const {
  Status done = change_mode(fd, info.st_mode & 07777);
  if (done) done = copy_times(fd, "", info);
  return done ? done : Status(way_.space.explain(path, done.error().code));
}

Status CopyTree::leaf(const WalkStep& step, const std::string& path) {
  const bool is_link = S_ISLNK(step.info.st_mode);
  if (!S_ISREG(step.info.st_mode) && !is_link) {
    ++skipped_;
    return {};
  }
  TRY(make_directories());
  ++taken_;
  ++way_.meter.files;
  TRY(way_.space.will_make());
  TRY_ASSIGN(const bool is_linked, linked(step, path));
  if (is_linked) return {};
  return is_link ? symlink(step, path) : file(step, path);
}

// Where a link cannot be made (a mode, a limit of the file system) the file is copied once more.
Result<bool> CopyTree::linked(const WalkStep& step, const std::string& path) {
  const std::string first = links_.first_name(step.info, path);
  if (first.empty()) return false;
  const SplitPath split = split_path(first);
  const auto parent = open_directory_below(root_, split.parent);
  return parent && ::linkat(parent->get(), std::string(split.name).c_str(), to_.top(),
                            step.name.c_str(), 0) == 0;
}

Status CopyTree::file(const WalkStep& step, const std::string& path) {
  const auto from = open_at(step.dir_fd, step.name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  if (!from) return unreadable(full(path), from.error().code);
  struct stat info {};
  if (::fstat(from->get(), &info) != 0) return unreadable(full(path), errno);
  if (!S_ISREG(info.st_mode)) return unreadable(full(path), ESTALE);
  auto to = open_at(to_.top(), step.name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
  if (!to) return way_.space.explain(path, to.error().code);
  return copy_file({from->get(), info, full(path)}, std::move(*to), way_.meter, way_.space);
}

Status CopyTree::symlink(const WalkStep& step, const std::string& path) {
  char target[PATH_MAX];
  const ssize_t size = ::readlinkat(step.dir_fd, step.name.c_str(), target, sizeof target - 1);
  if (size < 0) return unreadable(full(path), errno);
  target[size] = '\0';
  if (::symlinkat(target, to_.top(), step.name.c_str()) != 0) {
    return way_.space.explain(path, errno);
  }
  const Status times = copy_times(to_.top(), step.name.c_str(), step.info);
  return times ? times : Status(way_.space.explain(path, times.error().code));
}

}  // namespace nodestage
