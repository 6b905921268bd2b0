#include "daemon/worker/tree/settled_file.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <ctime>

namespace nodestage {
namespace {

using Time = SettleRules::Time;

bool is_equal(const timespec& a, const timespec& b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

bool have_same_content(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size &&
         is_equal(a.st_mtim, b.st_mtim);
}

// Returns whether a write through a mapping changes the file's time after an fdatasync(). It does
// not where nothing is ever written back: only the first write of each page does.
bool shows_mapped_writes(int fd) {
  struct statfs system {};
  if (::fstatfs(fd, &system) != 0) return false;
  const auto type = static_cast<std::uint32_t>(system.f_type);
  return type != TMPFS_MAGIC && type != RAMFS_MAGIC && type != HUGETLBFS_MAGIC;
}

}  // namespace

Time age_of(const timespec& time) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return std::chrono::duration_cast<Time>(std::chrono::seconds(now.tv_sec - time.tv_sec) +
                                          std::chrono::nanoseconds(now.tv_nsec - time.tv_nsec));
}

const SettleRules& usual_settle_rules() {
  static const SettleRules k_usual;
  return k_usual;
}

Error was_changed() { return Error{k_was_changed, "was changed while it was read"}; }

bool is_unchanged(int fd, const struct stat& before) {
  struct stat now {};
  return ::fstat(fd, &now) == 0 && have_same_content(now, before) &&
         (is_equal(now.st_ctim, before.st_ctim) || now.st_nlink != before.st_nlink);
}

// A time in the future is that of another clock, which says nothing.
bool has_held_still(int fd, const struct stat& before, const SettleRules& rules) {
  if (!is_unchanged(fd, before)) return false;
  const Time age = age_of(before.st_ctim);
  if (age < Time(0) || age >= rules.young) return true;
  rules.wait(rules.young - age);
  return is_unchanged(fd, before);
}

// The kernel grants a lease for reading only if no process can write.
Writers writers_of(int fd) {
  if (::fcntl(fd, F_SETLEASE, F_RDLCK) != 0)
    return errno == EAGAIN ? Writers::some : Writers::unknown;
  static_cast<void>(::fcntl(fd, F_SETLEASE, F_UNLCK));
  return Writers::none;
}

std::optional<SettledFile> SettledFile::look(int fd, const SettleRules& rules) {
  const Writers writers = writers_of(fd);
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return {};
  const SettledFile file(fd, writers, info);
  if (writers == Writers::none) {
    // One wait will do: what is written after it has another time.
    if (age_of(info.st_ctim) < rules.tick) rules.wait(rules.tick);
  } else {
    if (std::min(age_of(info.st_mtim), age_of(info.st_ctim)) < rules.quiet) return {};
    if (!shows_mapped_writes(fd)) return {};
    // Later writes through a mapping change the file's time only if its pages are clean.
    if (::fdatasync(fd) != 0 && errno != EINVAL && errno != EROFS) return {};
  }
  if (!file.is_same()) return {};
  return file;
}

// One that was replaced is whole, and yet not what the output has now.
bool SettledFile::is_same() const {
  struct stat now {};
  return ::fstat(fd_, &now) == 0 && have_same_content(now, info_) &&
         is_equal(now.st_ctim, info_.st_ctim);
}

bool SettledFile::was_whole() const {
  // The order counts: a process that closed it before the first call has changed what the second
  // one sees.
  if (writers_ == Writers::none && writers_of(fd_) == Writers::some) return false;
  return is_same();
}

}  // namespace nodestage
