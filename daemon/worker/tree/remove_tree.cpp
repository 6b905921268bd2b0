#include "daemon/worker/tree/remove_tree.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>

#include "common/os/file.hpp"
#include "common/text/human.hpp"
#include "daemon/worker/basis/fault.hpp"
#include "daemon/worker/tree/tree_walk.hpp"

namespace nodestage {
namespace {

// A second pass finds what was added or moved during the first.
constexpr int k_passes = 2;

Status remove_step(const WalkStep& step) {
  if (step.kind == WalkStep::Kind::directory) return {};
  if (step.kind == WalkStep::Kind::fault) {
    if (step.fault.code == EXDEV) return Error{EXDEV, "is a mount point and stays"};
    return step.fault;
  }
  const int flags = step.kind == WalkStep::Kind::directory_end ? AT_REMOVEDIR : 0;
  if (::unlinkat(step.dir_fd, step.name.c_str(), flags) == 0) return {};
  return Error{errno, std::strerror(errno)};
}

Status remove_pass(int dir_fd, const std::function<bool()>& must_stop) {
  Fd root(::fcntl(dir_fd, F_DUPFD_CLOEXEC, 0));
  if (!root) return system_error("the directory");
  TRY_ASSIGN(TreeWalk walk, TreeWalk::begin(std::move(root), WalkFor::removing));
  Status first;
  for (;;) {
    auto step = walk.next();
    if (!step) return first ? Status(std::move(step.error())) : first;
    if (!*step) return first;
    if (must_stop()) return Error{EINTR, "stopped"};
    const Status removed = remove_step(**step);
    if (removed || removed.error().code == ENOENT || !first) continue;
    first = Error{removed.error().code, walk.path(**step) + ": " + removed.error().text()};
  }
}

Status take_from(const WalkStep& step) {
  const bool is_directory = step.kind == WalkStep::Kind::directory_end;
  const auto entry = open_beneath(step.dir_fd, step.name, O_PATH | O_NOFOLLOW);
  struct stat info {};
  if (!entry || ::fstat(entry->get(), &info) != 0)
    return Error{errno, std::strerror(entry ? errno : entry.error().code)};
  if (S_ISLNK(info.st_mode) || is_directory != S_ISDIR(info.st_mode)) return {};
  const mode_t mode = info.st_mode & 07777;
  const mode_t wanted = is_directory ? read_only_directory(mode) : mode & ~k_write_bits;
  return wanted == mode ? Status() : change_mode(entry->get(), wanted);
}

Status take_at(const WalkStep& step) {
  if (step.kind == WalkStep::Kind::directory || S_ISLNK(step.info.st_mode)) return {};
  return step.kind == WalkStep::Kind::fault ? Status(step.fault) : take_from(step);
}

}  // namespace

Status remove_tree_contents(int dir_fd, const std::function<bool()>& must_stop) {
  bool has_stopped = false;
  const auto stops = [&] { return has_stopped = must_stop && must_stop(); };
  Status result;
  for (int pass = 0; pass < k_passes && !has_stopped; ++pass) {
    result = remove_pass(dir_fd, stops);
    if (result) return result;
  }
  return result;
}

Status remove_entry(int dir_fd, const std::string& name) {
  if (::unlinkat(dir_fd, name.c_str(), 0) == 0) return {};
  if (errno != EISDIR && errno != EPERM) return system_error(name);
  TRY_ASSIGN(const Fd directory, open_directory_at(dir_fd, name));
  TRY(remove_tree_contents(directory.get()));
  return ::unlinkat(dir_fd, name.c_str(), AT_REMOVEDIR) == 0 ? Status() : system_error(name);
}

int run_remove(const RemoveOrder& order) {
  if (!order.is_urgent) lower_priority();
  const Status removed = remove_tree_contents(k_worker_directory_fd);
  if (removed) return 0;
  std::fprintf(stderr, "job %u: not removed: %s\n", order.job,
               printable(shortened(removed.error().text(), 800)).c_str());
  return 1;
}

Status take_write_bits(int dir_fd) {
  TRY_ASSIGN(Fd root, duplicate(dir_fd));
  TRY_ASSIGN(TreeWalk walk, TreeWalk::begin(std::move(root), WalkFor::reading));
  for (;;) {
    TRY_ASSIGN(const auto step, walk.next());
    if (!step) return {};
    const Status taken = take_at(*step);
    if (!taken) return Error{taken.error().code, walk.path(*step) + ": " + taken.error().what};
  }
}

}  // namespace nodestage
