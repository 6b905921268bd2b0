#include "daemon/worker/tree/write_bits.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include "common/os/file.hpp"
#include "daemon/worker/tree/tree_walk.hpp"

namespace nodestage {
namespace {

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

Status take_write_bits(int dir_fd) {
  Fd root(::fcntl(dir_fd, F_DUPFD_CLOEXEC, 0));
  if (!root) return system_error("dup");
  TRY_ASSIGN(TreeWalk walk, TreeWalk::begin(std::move(root), WalkFor::reading));
  for (;;) {
    TRY_ASSIGN(const auto step, walk.next());
    if (!step) return {};
    const Status taken = take_at(*step);
    if (!taken) return Error{taken.error().code, walk.path(*step) + ": " + taken.error().what};
  }
}

}  // namespace nodestage
